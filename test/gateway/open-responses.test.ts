/**
 * The Open Responses compliance suite (github.com/openresponses/openresponses, by its case IDs) with three dialects and
 * the built-in model. Cases that need stored answers or a provider's tools are refused.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { strictly } from '../support/anthropic-upstream.ts'
import { CREDENTIAL, startApp, type TestApp } from '../support/app.ts'
import { createGemini } from '../support/gemini-upstream.ts'
import type { Json } from '../support/responses-contract.ts'
import { type Script, type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { toDelta } from '../support/upstream-answers.ts'
import { type Asker, createAsker } from './responses.ts'

const CALL = { name: 'get_weather', input: { location: 'San Francisco, CA' } }
/** True if it has a tool and no result yet. */
const isToCall = (json: unknown) => {
  const text = JSON.stringify(json)
  return text.includes('get_weather') && !text.includes('21 degrees')
}

const openai: Script = ({ json }) => {
  const call = {
    index: 0,
    id: 'call_1',
    type: 'function',
    function: { name: CALL.name, arguments: JSON.stringify(CALL.input) },
  }
  const said = isToCall(json) ? { tool_calls: [call] } : { content: 'Hello there, friend.' }
  const finish = isToCall(json) ? 'tool_calls' : 'stop'
  const usage = { prompt_tokens: 20, completion_tokens: 4, total_tokens: 24 }
  if (json?.stream === true)
    return { kind: 'stream', steps: [toDelta(said), toDelta({}, finish), { choices: [], usage }] }
  const choices = [{ index: 0, message: { role: 'assistant', ...said }, finish_reason: finish }]
  return { kind: 'whole', body: { id: 'x', object: 'chat.completion', created: 1, model: 'o', choices, usage } }
}

const SCRIPTS: Record<string, Script> = {
  openai,
  anthropic: strictly(
    ({ json }) => ({
      blocks: isToCall(json) ? [{ call: CALL.name, input: CALL.input }] : [{ text: 'Hello there, friend.' }],
    }),
    { key: CREDENTIAL },
  ),
  gemini: createGemini((_, body) => (isToCall(body) ? { calls: [CALL] } : { text: 'Hello there, friend.' }), {
    key: CREDENTIAL,
    signs: false,
  }).script,
}
const NAMES = Object.keys(SCRIPTS)
const FACTS =
  'context_length: 100000, max_output_length: 8000, input_modalities: [text, image, file], output_modalities: [text], supported_features: [tools], pricing: [{ prompt: "0.000001", completion: "0.000002" }]'

let app: TestApp
let upstreams: ScriptedUpstream[]
let asker: Asker
beforeAll(async () => {
  upstreams = await Promise.all(Object.values(SCRIPTS).map((script) => startUpstream(script)))
  const urls = upstreams.map(({ url }, at) => (NAMES[at] === 'gemini' ? `${url}beta` : url))
  app = await startApp({
    catalog: `
version: 1
upstreams:
  demo: { dialect: demo, local: true, pace_ms: 0 }
${NAMES.map((name, at) => `  ${name}: { dialect: ${name}, base_url: "${urls[at]}", api_key: \${UPSTREAM_KEY} }`).join('\n')}
models:
  acme/demo: { name: M, ${FACTS}, routes: [{ upstream: demo, model: demo }] }
${NAMES.map((name) => `  acme/${name}: { name: M, ${FACTS}, routes: [{ upstream: ${name}, model: v1 }] }`).join('\n')}
`,
  })
  asker = createAsker(app.baseUrl, app.key())
})
afterAll(async () => {
  await Promise.all(upstreams.map((upstream) => upstream.stop()))
  await app.stop()
})

const says = (role: string, content: unknown) => ({ type: 'message', role, content })
const WEATHER = {
  type: 'function',
  name: 'get_weather',
  description: 'Tells the weather at a place',
  parameters: { type: 'object', properties: { location: { type: 'string' } }, required: ['location'] },
}
const ASKS_WEATHER = { input: [says('user', 'Ask get_weather about San Francisco.')], tools: [WEATHER] }
const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=='
const PDF = `data:application/pdf;base64,${Buffer.from('%PDF-1.1\n%%EOF').toString('base64')}`

interface Case {
  id: string
  body: object
  stream?: true
  /** The type of a required output item. */
  item: string
}

const CASES: Case[] = [
  { id: 'basic-response', body: { input: [says('user', 'Greet me in three words.')] }, item: 'message' },
  { id: 'streaming-response', body: { input: [says('user', 'Count to five.')] }, stream: true, item: 'message' },
  {
    id: 'system-prompt',
    body: { input: [says('system', 'You are a pirate.'), says('user', 'Greet me.')] },
    item: 'message',
  },
  { id: 'tool-calling', body: ASKS_WEATHER, item: 'function_call' },
  { id: 'tool-calling-streaming', body: ASKS_WEATHER, stream: true, item: 'function_call' },
  {
    id: 'image-input',
    body: {
      input: [
        says('user', [
          { type: 'input_text', text: 'What do you see?' },
          { type: 'input_image', image_url: PIXEL },
        ]),
      ],
    },
    item: 'message',
  },
  {
    id: 'file-input',
    body: {
      input: [
        says('user', [
          { type: 'input_text', text: 'What is its title?' },
          { type: 'input_file', filename: 'a.pdf', file_data: PDF },
        ]),
      ],
    },
    item: 'message',
  },
  {
    id: 'multi-turn',
    body: { input: [says('user', 'I am Alice.'), says('assistant', 'Hello Alice!'), says('user', 'Who am I?')] },
    item: 'message',
  },
]

const MODELS = ['demo', ...NAMES].map((name) => `acme/${name}`)

describe.each(MODELS)('%s', (model) => {
  test.each(CASES)('$id', async ({ body, stream, item }) => {
    const { response, events } = stream
      ? await asker.stream({ model, ...body })
      : { response: await asker.ask({ model, ...body }), events: [] }
    expect(response.status).toBe('completed')
    const output = response.output as Json[]
    expect(output.map(({ type }) => type)).toContain(item)
    const types = events.map(({ type }) => type)
    if (item !== 'function_call') return
    expect(output[0]).toMatchObject({ name: 'get_weather', arguments: expect.stringContaining('location') })
    if (!stream) return
    expect(types).toContain('response.function_call_arguments.delta')
    expect(types).toContain('response.function_call_arguments.done')
  })

  test('function-call-roundtrip, with the whole input', async () => {
    const first = await asker.ask({ model, ...ASKS_WEATHER, tool_choice: { type: 'function', name: 'get_weather' } })
    const calls = first.output as Json[]
    const results = calls
      .filter(({ type }) => type === 'function_call')
      .map(({ call_id }) => ({ type: 'function_call_output', call_id, output: '21 degrees' }))
    const input = [...ASKS_WEATHER.input, ...calls, ...results]
    const second = await asker.ask({ model, input, tools: [WEATHER] })
    expect(second).toMatchObject({ status: 'completed', output: [{ type: 'message' }] })
  })
})

/** Cases that need stored answers, or the server's own tools. */
const LEFT_OUT: [id: string, body: object, param: string][] = [
  ['previous-response-id', { previous_response_id: 'resp_1', input: 'Which word?' }, 'previous_response_id'],
  [
    'function-call-roundtrip',
    { previous_response_id: 'resp_1', input: [{ type: 'function_call_output', call_id: 'c', output: 'x' }] },
    'previous_response_id',
  ],
  [
    'file-search',
    {
      input: 'Search.',
      tools: [{ type: 'file_search', vector_store_ids: ['vs_1'] }],
      tool_choice: { type: 'file_search' },
    },
    'tool_choice',
  ],
  [
    'offline-web-search',
    {
      input: 'Find.',
      tools: [{ type: 'web_search', external_web_access: false }],
      tool_choice: { type: 'web_search' },
    },
    'tool_choice',
  ],
]

test.each(LEFT_OUT)('%s is rejected, with an alternative', async (_, body, param) => {
  const response = await asker.post({ model: 'acme/demo', ...body })
  expect([response.status, await response.json()]).toMatchObject([400, { error: { param } }])
})
