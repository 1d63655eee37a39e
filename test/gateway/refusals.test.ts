/** Chat requests rejected before dispatch: error text, order, and no trace. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { MAX_BODY_BYTES } from '../../src/gateway/read.ts'
import { type Gateway, HELLO, startGateway } from '../support/gateway.ts'
import { play, type Scenario } from '../support/scenario.ts'

let gateway: Gateway
beforeAll(async () => {
  gateway = await startGateway()
})
afterAll(async () => {
  expect(gateway.upstream.requests).toEqual([])
  await gateway.stop()
})

type Row = Partial<Scenario> & { name: string }
const refused = (row: Row, token = gateway.key) =>
  play(gateway.app, { method: 'POST', url: '/v1/chat/completions', status: 400, body: HELLO, ...row }, token)

const invalid = (code: string | null, param: string | null) => ({
  error: { type: 'invalid_request_error', code, param },
})
const messages = HELLO.messages

const BODIES: Row[] = [
  { name: 'nothing', body: '', ...invalid(null, null), contains: ['We could not parse the JSON body'] },
  { name: 'half a JSON text', body: '{"model":', ...invalid(null, null), contains: ['We could not parse'] },
  { name: 'an array', body: '[]', ...invalid(null, null), contains: ['one JSON object'] },
  { name: 'null', body: 'null', ...invalid(null, null), contains: ['one JSON object'] },
  { name: 'a text', body: '"hello"', ...invalid(null, null), contains: ['one JSON object'] },
  {
    name: 'a form',
    body: 'model=x',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    ...invalid('unsupported_content_type', null),
    contains: ["Unsupported content type: 'application/x-www-form-urlencoded'"],
  },
  {
    name: 'a packed body',
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    ...invalid('unsupported_content_type', null),
  },
  { name: 'text/plain', headers: { 'content-type': 'text/plain' }, ...invalid('unsupported_content_type', null) },
]

const FIELDS: Row[] = [
  { name: 'no model', body: { messages }, ...invalid(null, null), contains: ['you must provide a model parameter'] },
  { name: 'an empty object', body: {}, ...invalid(null, null), contains: ['you must provide a model parameter'] },
  { name: 'a null model', body: { model: null, messages }, ...invalid(null, null) },
  {
    name: 'a model that is a number',
    body: { model: 7, messages },
    ...invalid('invalid_type', 'model'),
    contains: ["Invalid type for 'model'"],
  },
  {
    name: 'no messages',
    body: { model: 'acme/large' },
    ...invalid('missing_required_parameter', 'messages'),
    contains: ["Missing required parameter: 'messages'"],
  },
  { name: 'empty messages', body: { ...HELLO, messages: [] }, ...invalid('empty_array', 'messages') },
  { name: 'messages that are text', body: { ...HELLO, messages: 'hi' }, ...invalid('invalid_type', 'messages') },
  {
    name: 'an unknown role',
    body: { ...HELLO, messages: [{ role: 'wizard', content: 'x' }] },
    ...invalid('invalid_value', 'messages[0].role'),
  },
  {
    name: 'a part of the wrong type',
    body: { ...HELLO, messages: [...messages, { role: 'user', content: [{ type: 'text', text: 7 }] }] },
    ...invalid('invalid_type', 'messages[1].content[0].text'),
  },
  {
    name: 'a temperature beyond its range',
    body: { ...HELLO, temperature: 200 },
    ...invalid('decimal_above_max_value', 'temperature'),
    contains: ['Expected a value <= 2, but got 200 instead'],
  },
  {
    name: 'a temperature that is text',
    body: { ...HELLO, temperature: 'hot' },
    ...invalid('invalid_type', 'temperature'),
  },
  { name: 'n of 0', body: { ...HELLO, n: 0 }, ...invalid('integer_below_min_value', 'n') },
  { name: 'n of 129', body: { ...HELLO, n: 129 }, ...invalid('integer_above_max_value', 'n') },
  { name: 'half a token', body: { ...HELLO, max_tokens: 1.5 }, ...invalid('invalid_type', 'max_tokens') },
  {
    name: '257 stop texts',
    body: { ...HELLO, stop: Array(257).fill('1') },
    ...invalid('array_above_max_length', 'stop'),
  },
  {
    name: 'an unknown effort',
    body: { ...HELLO, reasoning_effort: 'huge' },
    ...invalid('invalid_value', 'reasoning_effort'),
  },
  {
    name: 'two caps',
    body: { ...HELLO, max_tokens: 5, max_completion_tokens: 5 },
    ...invalid('invalid_parameter_combination', 'max_tokens'),
  },
  {
    name: 'stream options without a stream',
    body: { ...HELLO, stream_options: { include_usage: true } },
    ...invalid(null, 'stream_options'),
    contains: ["only allowed when 'stream' is enabled"],
  },
  {
    name: 'a tool name of other characters',
    body: { ...HELLO, tools: [{ type: 'function', function: { name: 'get.weather' } }] },
    ...invalid('invalid_value', 'tools[0].function.name'),
  },
  {
    name: 'a tool choice without tools',
    body: { ...HELLO, tool_choice: 'auto' },
    ...invalid(null, 'tool_choice'),
    contains: ["'tool_choice' is only allowed when 'tools' are specified"],
  },
]

const calls = [{ id: 'call_7', type: 'function', function: { name: 'f', arguments: '{}' } }]
const open = { type: 'object', properties: {} }

const TURNS_AND_SCHEMAS: Row[] = [
  {
    name: 'a tool call without an answer',
    body: { ...HELLO, messages: [...messages, { role: 'assistant', content: null, tool_calls: calls }, ...messages] },
    ...invalid(null, 'messages'),
    contains: ['did not have response messages: call_7'],
  },
  {
    name: 'a tool message that answers nothing',
    body: { ...HELLO, messages: [...messages, { role: 'tool', tool_call_id: 'call_7', content: 'x' }] },
    ...invalid(null, 'messages.[1].role'),
    contains: ["messages with role 'tool' must be a response to a preceeding message with 'tool_calls'"],
  },
  {
    name: 'an assistant that says nothing',
    body: { ...HELLO, messages: [...messages, { role: 'assistant', content: null }] },
    ...invalid(null, 'messages.[1].content'),
  },
  {
    name: 'a strict schema that is open',
    body: {
      ...HELLO,
      response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema: open } },
    },
    ...invalid(null, 'response_format'),
    contains: ["Invalid schema for response_format 'answer': In context=(), 'additionalProperties' is required"],
  },
  {
    name: 'a function whose schema says nothing',
    body: { ...HELLO, tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }] },
    ...invalid('invalid_function_parameters', 'tools[0].function.parameters'),
    contains: ["Invalid schema for function 'f': In context=(), object schema missing properties."],
  },
]

describe('a body', () => {
  test.each(BODIES)('of $name is rejected', async (row) => {
    await refused(row)
  })
  test.each([...FIELDS, ...TURNS_AND_SCHEMAS])('with $name is rejected with its field', async (row) => {
    await refused(row)
  })
})

test('JSON nested too deeply to be rewritten is rejected, wherever it is', async () => {
  const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`
  const tools = [{ type: 'function', function: { name: 'f', parameters: { deep: 0 } } }]
  for (const hiding of [{ deep: 0 }, { tools }, { messages: [{ role: 'user', content: 'x', deep: 0 }] }]) {
    const body = JSON.stringify({ ...HELLO, ...hiding }).replace('"deep":0', `"deep":${deep}`)
    await refused({ name: 'deep', body, ...invalid(null, null), contains: ['nested more than 256 levels'] })
  }
})

const notFound = { status: 404, error: { type: 'invalid_request_error', code: 'model_not_found', param: 'model' } }

describe('a model', () => {
  const ask = (model: string, key: string) =>
    refused({ name: model, body: { ...HELLO, model }, ...notFound }, key).then((text) => text.replaceAll(model, 'X'))

  test("gets the same error if it doesn't exist or the key may not use it", async () => {
    const { app } = gateway
    const [listed, local] = [app.key({ models: ['acme/small'] }), app.key({ scope: 'local' })]
    const answers = [
      await ask('acme/never', gateway.key),
      await ask('acme/large', listed),
      await ask('fast', listed),
      await ask('acme/large', local),
      await ask('acme/idle', local),
    ]
    expect(new Set(answers).size).toBe(1)
  })

  test('with a similar name is suggested, but only to a key that may use it', async () => {
    const hint = 'Did you mean `acme/large`?'
    const wrong = { name: 'bare', body: { ...HELLO, model: 'Large' }, ...notFound }
    await refused({ ...wrong, contains: [hint] })
    await refused({ ...wrong, notContains: [hint] }, gateway.app.key({ models: ['acme/small'] }))
  })

  test('without a ready upstream names the missing variable, but only to a key that may use it', async () => {
    const idle = { name: 'idle', body: { ...HELLO, model: 'acme/idle' } }
    await refused({
      ...idle,
      status: 503,
      error: { type: 'service_unavailable_error', code: 'model_not_ready', param: null },
      expectedHeaders: { 'retry-after': /^\d+$/ },
      contains: ['NOBODY_SET_THIS'],
    })
    await refused({ ...idle, ...notFound }, gateway.app.key({ models: ['acme/small'] }))
  })
})

const tooLarge = {
  status: 413,
  error: { type: 'invalid_request_error', code: 'request_too_large', param: null },
  contains: [`(limit: ${MAX_BODY_BYTES} bytes)`],
}

describe('the order of the checks', () => {
  const big = new Uint8Array(MAX_BODY_BYTES + 1).fill(0x20)

  test('key, size, content type, JSON, fields, model', async () => {
    const wrong = { 'content-type': 'text/plain' }
    await refused({ name: 'all wrong', body: big, headers: wrong, status: 401 }, 'nonsense')
    await refused({ name: 'then the size', body: big, headers: wrong, ...tooLarge })
    await refused({ name: 'then the type', body: '{', headers: wrong, ...invalid('unsupported_content_type', null) })
    await refused({ name: 'then the JSON', body: '{', ...invalid(null, null) })
    const body = { model: 'no/such', messages, n: 0 }
    await refused({ name: 'then the fields', body, ...invalid('integer_below_min_value', 'n') })
    await refused({ name: 'then the model', body: { ...body, n: 1 }, ...notFound })
  })

  /** Sent without its length. */
  const inPieces = (bytes: Uint8Array) =>
    new ReadableStream({
      start(controller) {
        for (let at = 0; at < bytes.length; at += 1e6) controller.enqueue(bytes.subarray(at, at + 1e6))
        controller.close()
      },
    })

  test('a body of unknown length is stopped at the limit, and a smaller one is read to its end', async () => {
    const quoted = Buffer.concat([Buffer.from('"'), big])
    const spaces = inPieces(big.subarray(0, 3_000_000))
    await refused({ name: 'chunked and too large', body: inPieces(quoted), ...tooLarge })
    await refused({ name: 'chunked', body: spaces, ...invalid(null, null), contains: ['could not parse'] })
  })

  test.each([100, 300_000, 3_000_000])(
    'a body of %d characters is read the same with or without a stated length',
    async (size) => {
      const words = { ...invalid(null, null), contains: ['you must provide a model parameter'] }
      const bytes = Buffer.from(`\uFEFF{"padding":"${'é'.repeat(size)}"}`)
      await refused({ name: 'stated', body: bytes, ...words })
      await refused({ name: 'chunked', body: inPieces(bytes), ...words })
    },
  )
})

test('each rejection leaves one log line, with its reason and nothing of the request', async () => {
  const { app } = gateway
  const lines = async () => (await app.logLines()).filter((line) => line.msg === 'request rejected')
  const before = (await lines()).length
  await refused({ name: 'one', body: { ...HELLO, messages: [{ role: 'user', content: ['private words'] }] } })
  const [line, ...others] = (await lines()).slice(before)
  expect(others).toEqual([])
  expect(line).toMatchObject({ level: 'info', http: 400, key: expect.stringMatching(/^[0-9a-f]{32}$/) })
  expect(line?.id).toMatch(/^[0-9a-f]{32}$/)
  const text = await app.logText()
  expect(text).not.toContain('private words')
  for (const secret of app.secrets) expect(text).not.toContain(secret)
})

test("a client's field names are shortened in a response, and kept out of the log", async () => {
  const name = `SECRETNAME${'k'.repeat(200_000)}`
  const response = await gateway.chat({ logit_bias: { [name]: 101 } })
  expect(response.status).toBe(400)
  const text = await response.text()
  expect(text.length).toBeLessThan(2_000)
  expect(await gateway.app.logText()).not.toContain('SECRETNAME')
})

test('a flood without a key leaves few short lines, and hides no rejection of a key', async () => {
  const { app } = gateway
  const before = (await app.logText()).length
  const long = `/${'x'.repeat(12_000)}`
  for (let i = 0; i < 100; i++) expect((await fetch(`${app.origin}${long}`)).status).toBe(404)
  for (let i = 0; i < 100; i++) expect((await fetch(`${app.baseUrl}/models`)).status).toBe(401)
  expect((await gateway.chat({ model: 'no/such' })).status).toBe(404)
  const text = (await app.logText()).slice(before)
  expect(text.length).toBeLessThan(20_000)
  const lines: Record<string, unknown>[] = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const counts = lines.map(({ event, http, key, count = 1 }) => ({ event, http, isOfKey: key !== undefined, count }))
  const alone = (http: number) => Array(20).fill({ event: 'request_refused', http, isOfKey: false, count: 1 })
  const more = (http: number) => ({ event: 'refusals_collapsed', http, isOfKey: false, count: 80 })
  const ofKey = { event: 'request_refused', http: 404, isOfKey: true, count: 1 }
  expect(counts).toEqual([...alone(404), ...alone(401), ofKey, more(404), more(401)])
})
