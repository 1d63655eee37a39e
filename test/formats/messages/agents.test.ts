/** Recorded requests of Claude Code, if they are next to the repository: all are accepted, and Anthropic's own fields aren't forwarded. */
import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isChat } from '../../../src/domain/task.ts'
import { messagesCounting as counting, messages } from '../../../src/formats/messages/messages.ts'

const FOLDER = join(import.meta.dir, '../../../../shared/data/agents')

interface Exchange {
  request: { method: string; url: string; body: Record<string, unknown> | null }
}

function load(): { name: string; url: string; body: Record<string, unknown> }[] {
  if (!existsSync(FOLDER)) return []
  return readdirSync(FOLDER)
    .filter((name) => name.startsWith('claude-code'))
    .flatMap((folder) => readdirSync(join(FOLDER, folder)).map((file) => join(folder, file)))
    .flatMap((name) => {
      const { request }: Exchange = JSON.parse(readFileSync(join(FOLDER, name), 'utf8'))
      return request.method === 'POST' && request.body ? [{ name, url: request.url, body: request.body }] : []
    })
}

const requests = load()
if (requests.length === 0) console.warn('left out: no recorded requests of agents')

describe.skipIf(requests.length === 0)('a request of Claude Code', () => {
  test.each(requests.map((each) => [each.name, each] as const))('%s', (_, { url, body }) => {
    const format = url.includes('count_tokens') ? counting : messages
    const task = format.toTask(body, { text: '', headers: {} })
    if (task instanceof Error) throw task
    if (!isChat(task)) throw new Error('it asks for no chat')
    const sent = task.body
    const text = JSON.stringify(sent)
    expect(text).not.toContain('x-anthropic-billing-header')
    expect(text).not.toContain('context_management')
    const tools = (body.tools ?? []) as { name: string; type?: string; input_schema: object }[]
    const functions = tools.filter(({ type }) => !type || type === 'custom')
    expect(sent.tools?.map((tool) => (tool.type === 'function' ? tool.function.parameters : null)) ?? []).toEqual(
      functions.map((tool) => tool.input_schema as Record<string, unknown>),
    )
    const asked = (body.messages as { content: string | { type: string }[] }[]).flatMap(({ content }) =>
      typeof content === 'string' ? [] : content,
    )
    const count = (type: string) => asked.filter((block) => block.type === type).length
    expect(
      sent.messages.flatMap((message) => (message.role === 'assistant' ? (message.tool_calls ?? []) : [])).length,
    ).toBe(count('tool_use'))
    expect(sent.messages.filter(({ role }) => role === 'tool').length).toBe(count('tool_result'))
    expect(task.promptTokens).toBeGreaterThan(0)
  })
})
