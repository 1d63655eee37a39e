/** Responses have every field that the official libraries' types require, since libraries in other languages check them. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startApp, type TestApp } from '../support/app.ts'
import { openSdkTypes, type SdkTypes } from '../support/sdk-types.ts'

const FACTS =
  'name: D, context_length: 65536, max_output_length: 4096, output_modalities: [text], pricing: [{ prompt: "0", completion: "0" }]'
const FEATURES = '[tools, json_mode, structured_outputs, logprobs, reasoning]'

let app: TestApp
let types: SdkTypes
let key: string
beforeAll(async () => {
  types = await openSdkTypes()
  app = await startApp({
    catalog: `
version: 1
upstreams:
  demo: { dialect: demo, local: true, pace_ms: 0 }
models:
  acme/demo: { ${FACTS}, input_modalities: [text], supported_features: ${FEATURES}, routes: [{ upstream: demo, model: demo }] }
  acme/vectors: { name: V, context_length: 8192, input_modalities: [text], output_modalities: [embeddings], pricing: [{ prompt: "0", completion: "0" }], routes: [{ upstream: demo, model: demo }] }
`,
  })
  key = app.key()
})
afterAll(async () => {
  await types.close()
  await app.stop()
})

const ask = async (path: string, body: object): Promise<string> => {
  const response = await fetch(`${app.baseUrl}${path}`, {
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(path.startsWith('/models/') ? {} : { method: 'POST', body: JSON.stringify({ model: 'acme/demo', ...body }) }),
  })
  const text = await response.text()
  expect([response.status, text]).toEqual([200, text])
  return text
}

const PARAMETERS = { type: 'object', properties: { city: { type: 'string' } } }
const messages = [{ role: 'user', content: 'Tell me the weather.' }]
const forChat = {
  messages,
  tools: [{ type: 'function', function: { name: 'weather', parameters: PARAMETERS } }],
}
const forMessages = { messages, max_tokens: 2_000, tools: [{ name: 'weather', input_schema: PARAMETERS }] }
const thinking = { type: 'enabled', budget_tokens: 1_024 }
const forResponses = {
  input: 'Tell me the weather.',
  tools: [{ type: 'function', name: 'weather', parameters: PARAMETERS, strict: false }],
}
const reasoning = { effort: 'low', summary: 'auto' }

/** The library computes `output_text` itself. */
const lacks = async (type: string, answer: unknown) =>
  (await types.lacks(type, answer)).filter((path) => !path.endsWith('.output_text'))

test.each<[type: string, path: string, body: object]>([
  ['chat', '/chat/completions', forChat],
  ['chat', '/chat/completions', { messages, logprobs: true, top_logprobs: 2, reasoning_effort: 'low' }],
  ['response', '/responses', { ...forResponses, reasoning }],
  ['response', '/responses', { input: 'Hello', top_logprobs: 2 }],
  ['responseTokens', '/responses/input_tokens', forResponses],
  ['message', '/messages', { ...forMessages, thinking }],
  ['betaMessage', '/messages', { messages, max_tokens: 100 }],
  ['messageTokens', '/messages/count_tokens', { messages }],
  ['embeddings', '/embeddings', { model: 'acme/vectors', input: ['a', 'b'] }],
  ['model', '/models/acme/demo', {}],
  ['anthropicModel', '/models/acme/demo', {}],
  ['betaModel', '/models/acme/demo', {}],
])('%s of %s', async (type, path, body) => {
  expect(await lacks(type, JSON.parse(await ask(path, body)))).toEqual([])
})

test.each<[type: string, path: string, body: object]>([
  ['chunk', '/chat/completions', { ...forChat, stream_options: { include_usage: true } }],
  ['chunk', '/chat/completions', { messages, logprobs: true, reasoning_effort: 'low' }],
  ['responseEvent', '/responses', { ...forResponses, reasoning }],
  ['responseEvent', '/responses', { input: 'Hello', top_logprobs: 2 }],
  ['messageEvent', '/messages', { ...forMessages, thinking }],
  ['messageEvent', '/messages', { messages, max_tokens: 3 }],
])('%s of a stream of %s', async (type, path, body) => {
  const text = await ask(path, { ...body, stream: true })
  const datas = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data = '']) => JSON.parse(data))
  expect(datas.length).toBeGreaterThan(2)
  for (const data of datas) expect(await lacks(type, data)).toEqual([])
})

test('a missing required field is reported at any depth', async () => {
  const whole = JSON.parse(await ask('/responses', forResponses))
  whole.usage.input_tokens_details = { cached_tokens: 0 }
  whole.output[0].name = null
  expect(await lacks('response', whole)).toEqual(
    expect.arrayContaining(['.output[0].name is null', '.usage.input_tokens_details.cache_write_tokens']),
  )
})
