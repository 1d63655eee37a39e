/** Conversations that move to Claude from another vendor, or back. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { createAllBackends } from '../../src/server/backends.ts'
import { testUpstream } from '../../src/server/outward/questions.ts'
import { errorMessage } from '../support/anthropic-answers.ts'
import { inTurn, strictly } from '../support/anthropic-upstream.ts'
import { startApp, type TestApp } from '../support/app.ts'
import { checkWhole } from '../support/contract.ts'
import { toTarget } from '../support/snapshot.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { errorAnswer, type Whole, wholeAnswer } from '../support/upstream-answers.ts'

let claude: ScriptedUpstream
let other: ScriptedUpstream
let app: TestApp
let key: string
beforeAll(async () => {
  claude = await startUpstream()
  other = await startUpstream()
  app = await startApp({
    catalog: `
version: 1
upstreams:
  other: { dialect: openai, base_url: "${other.url}" }
  claude: { dialect: anthropic, base_url: "${claude.url}", api_key: \${UPSTREAM_KEY} }
models:
  acme/any:
    { name: Any, context_length: 9000, max_output_length: 4000, input_modalities: [text], output_modalities: [text], supported_features: [tools, reasoning],
      pricing: [{ prompt: "0.000003", completion: "0.000015" }], routes: [{ upstream: other, model: o, priority: 0 }, { upstream: claude, model: c, priority: 1, thinking: budget }] }
  acme/first:
    { name: First, context_length: 9000, max_output_length: 4000, input_modalities: [text], output_modalities: [text], supported_features: [tools],
      pricing: [{ prompt: "0.000003", completion: "0.000015" }], routes: [{ upstream: claude, model: c, priority: 0 }, { upstream: other, model: o, priority: 1 }] }
`,
  })
  key = app.key()
})
beforeEach(() => app.pass(600_000))
afterAll(async () => {
  await app.stop()
  await claude.stop()
  await other.stop()
})

const tools = [{ type: 'function', function: { name: 'clock' } }]

async function ask(messages: unknown[], model = 'acme/any') {
  const response = await fetch(`${app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages, tools, reasoning_effort: 'low' }),
  })
  const text = await response.text()
  expect({ status: response.status, text }).toMatchObject({ status: 200 })
  checkWhole(text)
  return JSON.parse(text).choices[0].message
}

/** Claude knows neither the ID nor the signature. */
const calling = (): Whole => {
  const answer = wholeAnswer({ finish: 'tool_calls' })
  const message = {
    role: 'assistant',
    content: null,
    reasoning_details: [{ type: 'reasoning.encrypted', data: 'AAAA', format: 'google-gemini-v1', index: 0 }],
    tool_calls: [{ id: 'call:1.2|x', type: 'function', function: { name: 'clock', arguments: '{}' } }],
  }
  return {
    ...answer,
    body: { ...(answer.body as object), choices: [{ index: 0, message, finish_reason: 'tool_calls' }] },
  }
}

test("Claude continues after another vendor's tool call, and the client keeps its ID", async () => {
  other.script(calling())
  claude.script(strictly(inTurn({ blocks: [] }, { blocks: [{ text: 'Noon.' }] }), { ability: { thinking: 'budget' } }))
  const messages: unknown[] = [{ role: 'user', content: 'Time?' }]
  const message = await ask(messages)
  expect(message.tool_calls[0].id).toBe('call:1.2|x')
  messages.push(message, { role: 'tool', tool_call_id: 'call:1.2|x', content: '12:00' })
  other.script(errorAnswer(500))
  expect((await ask(messages)).content).toBe('Noon.')
  const sent = JSON.stringify(claude.requests.at(-1)?.json)
  expect(sent).not.toContain('call:1.2|x')
  expect(sent).not.toContain('AAAA')
})

test("if its provider is overloaded, a model's response comes from another vendor", async () => {
  other.script(wholeAnswer({ tokens: ['Here.'] }))
  claude.script(errorMessage(529, 'overloaded_error', 'Overloaded'))
  const asked = claude.requests.length
  expect((await ask([{ role: 'user', content: 'Time?' }], 'acme/first')).content).toBe('Here.')
  expect(claude.requests.length).toBe(asked + 1)
})

test('the health check requests the model list, with key and version', async () => {
  const { upstream } = toTarget({ dialect: 'anthropic', baseUrl: claude.url.replace('/v1', ''), credential: 'k' })
  const { anthropic: backend } = createAllBackends({ environment: {} })
  const look = () => testUpstream(upstream, { backend, monotonicMs: () => 0 })
  expect(await look()).toMatchObject({ state: 'ready' })
  expect(claude.probes.at(-1)).toMatchObject({ headers: { 'x-api-key': 'k', 'anthropic-version': '2023-06-01' } })
  claude.scriptProbes(errorMessage(401, 'authentication_error', 'invalid x-api-key'))
  expect(await look()).toMatchObject({ state: 'refused', reason: expect.stringContaining('api_key') })
  claude.scriptProbes(errorMessage(529, 'overloaded_error', 'Overloaded'))
  expect(await look()).toMatchObject({ state: 'degraded' })
})
