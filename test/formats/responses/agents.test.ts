/** Recorded requests of Codex, if they are next to the repository: each becomes a task, and no content is lost. */
import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { GatewayError } from '../../../src/domain/error.ts'
import { validate } from '../../../src/formats/chat/request.ts'
import { responses } from '../../../src/formats/responses/responses.ts'

const FOLDER = join(import.meta.dir, '../../../../shared/data/agents')

interface Sent {
  method: string
  url: string
  body: { input: { type: string; name?: string; call_id?: string }[]; tools: { type: string; name?: string }[] }
}

const SENT: [file: string, sent: Sent][] = existsSync(FOLDER)
  ? readdirSync(FOLDER)
      .filter((name) => name.startsWith('codex-'))
      .flatMap((name) => readdirSync(join(FOLDER, name)).map((file) => join(name, file)))
      .map((file): [string, Sent] => [file, JSON.parse(readFileSync(join(FOLDER, file), 'utf8')).request])
      .filter(([, { method }]) => method === 'POST')
  : []

describe.if(SENT.length > 0)('a request of Codex', () => {
  test.each(SENT)('%s', (_, { body }) => {
    const task = responses.toTask(body, { text: '', headers: {} })
    if (task instanceof GatewayError) throw task
    const { messages, tools = [] } = task.body
    const calls = messages.flatMap((message) => (message.role === 'assistant' ? (message.tool_calls ?? []) : []))
    const results = messages.flatMap((message) => (message.role === 'tool' ? message.tool_call_id : []))
    const called = body.input.flatMap(({ type, call_id }) => (type === 'function_call' ? call_id : []))
    expect(calls.map(({ id }) => id)).toEqual(called as string[])
    expect(results).toEqual(called as string[])
    const names = (tools ?? []).flatMap((tool) => (tool.type === 'function' ? tool.function.name : []))
    expect(names).toContain('exec_command')
    expect(names).toContain('multi_agent_v1__spawn_agent')
    expect(names).not.toContain('web_search')
    expect(names).toHaveLength(12)
    expect(messages.slice(0, 4).map(({ role }) => role)).toEqual(['developer', 'developer', 'user', 'user'])
    // The result is also a valid request of the chat API.
    expect(validate(task.body)).not.toBeInstanceOf(GatewayError)
  })
})
