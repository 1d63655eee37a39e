/** The Messages endpoint: access, errors, keep-alives and token counting. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { costOf, startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { checkError, checkMessage, checkMessageStream } from '../support/messages-contract.ts'
import { obliging } from '../support/upstream.ts'
import { errorAnswer, streamAnswer, toDelta } from '../support/upstream-answers.ts'

const gateway = forAllTests(() => startGateway({ config: { heartbeatMs: 50 } }))
beforeEach(() => gateway.upstream.script(obliging))

const HELLO = { model: 'acme/large', max_tokens: 50, messages: [{ role: 'user', content: 'Hello there!' }] }

interface Asking {
  path?: string
  method?: string
  headers?: Record<string, string>
  body?: string
}

const send = (changes: object = {}, { path = '/messages', method = 'POST', headers = {}, body }: Asking = {}) =>
  fetch(`${gateway.app.baseUrl}${path}`, {
    method,
    headers: { 'x-api-key': gateway.key, 'content-type': 'application/json', ...headers },
    ...(method === 'POST' ? { body: body ?? JSON.stringify({ ...HELLO, ...changes }) } : {}),
  })

async function refused(response: Response): Promise<{ type: string; message: string }> {
  const text = await response.text()
  expect(response.headers.get('request-id')).toBe(JSON.parse(text).request_id)
  expect(response.headers.get('x-request-id')).toBe(JSON.parse(text).request_id)
  return checkError(text)
}

describe('a response', () => {
  test('whole, is a message with its usage and its receipt', async () => {
    const response = await send()
    expect(response.headers.get('x-tollgate-passthrough')).toBe('false')
    expect(checkMessage(await response.text())).toMatchObject({
      model: 'acme/large',
      content: [{ type: 'text', text: 'tok0 tok1 tok2 tok3 tok4 ' }],
      stop_reason: 'end_turn',
      usage: { input_tokens: 10, output_tokens: 5, cost_nano_usd: costOf(10, 5) },
    })
  })

  test('streamed, begins with an estimate of its prompt and ends with the count', async () => {
    const text = await (await send({ stream: true })).text()
    const { message, events } = checkMessageStream(text)
    expect(text).toContain('"usage":{"input_tokens":11,')
    expect(message).toMatchObject({
      content: [{ type: 'text', text: 'tok0 tok1 tok2 tok3 tok4 ' }],
      usage: { input_tokens: 10, output_tokens: 5, cost_nano_usd: costOf(10, 5) },
    })
    expect(events.slice(-3)).toEqual(['content_block_stop', 'message_delta', 'message_stop'])
  })

  test('has cached tokens apart from others', async () => {
    const usage = { prompt_tokens: 100, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 80 } }
    gateway.upstream.script(streamAnswer({ tokens: ['x'], usage }))
    const { message } = checkMessageStream(await (await send({ stream: true })).text())
    expect(message.usage).toMatchObject({ input_tokens: 20, cache_read_input_tokens: 80 })
    expect(message.usage).toMatchObject({ cost_nano_usd: costOf(100, 1, 80) })
  })

  test('of a model with a smaller output gets a lower cap, and no unsupported reasoning', async () => {
    const asked = { max_tokens: 32_000, thinking: { type: 'adaptive' }, output_config: { effort: 'high' } }
    expect((await send(asked)).status).toBe(200)
    expect(gateway.upstream.requests.at(-1)?.json).toEqual({
      model: 'large-v1',
      messages: [{ role: 'user', content: 'Hello there!' }],
      max_tokens: 1_000,
    })
  })

  test('works with a bearer token, and with a query', async () => {
    const headers = { authorization: `Bearer ${gateway.key}`, 'x-api-key': '' }
    expect((await send({}, { headers, path: '/messages?beta=true' })).status).toBe(200)
  })
})

describe('a rejection', () => {
  const TABLE: [string, number, string, RegExp, object, Asking?][] = [
    ['without a key', 401, 'authentication_error', /key/, {}, { headers: { 'x-api-key': '' } }],
    ['of a model that there is not', 404, 'not_found_error', /model/, { model: 'claude-opus-9' }],
    ['of a model that is not ready', 529, 'overloaded_error', /not ready/, { model: 'acme/idle' }],
    ['of no JSON', 400, 'invalid_request_error', /JSON/, {}, { body: '{"model":' }],
    ['of no object', 400, 'invalid_request_error', /JSON object/, {}, { body: '[]' }],
    [
      'of another content type',
      400,
      'invalid_request_error',
      /content type/,
      {},
      { headers: { 'content-type': 'text/plain' } },
    ],
    ['of no messages', 400, 'invalid_request_error', /^messages: /, { messages: [] }],
    ['without a cap', 400, 'invalid_request_error', /^max_tokens: /, { max_tokens: null }],
    [
      'of a wrong type',
      400,
      'invalid_request_error',
      /^messages\.0\.content\.1\.text: /,
      {
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'a' },
              { type: 'text', text: 7 },
            ],
          },
        ],
      },
    ],
    [
      'of a call that nobody answers',
      400,
      'invalid_request_error',
      /^messages\.1: `tool_use` ids.*: toolu_1\. /,
      {
        messages: [
          { role: 'user', content: 'a' },
          { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }] },
          { role: 'user', content: 'b' },
        ],
      },
    ],
    [
      'of an answer that nobody asked for',
      400,
      'invalid_request_error',
      /^messages\.0\.content\.0: .*toolu_1/,
      {
        messages: [{ role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'x' }] }],
      },
    ],
    [
      'of what is stored with a provider',
      400,
      'invalid_request_error',
      /stored with the provider/,
      {
        messages: [{ role: 'user', content: [{ type: 'document', source: { type: 'file', file_id: 'file_1' } }] }],
      },
    ],
    ['of where data may be', 400, 'invalid_request_error', /inference_geo/, { inference_geo: 'us' }],
    [
      'of a schema that is none',
      400,
      'invalid_request_error',
      /^output_config\.format\.schema: /,
      {
        output_config: { format: { type: 'json_schema', schema: { type: 'objekt' } } },
      },
    ],
    ['of a way that there is not', 404, 'not_found_error', /Invalid URL/, {}, { path: '/messages/parts' }],
    ['of a method', 405, 'invalid_request_error', /use POST/, {}, { method: 'GET' }],
  ]

  test.each(TABLE)('%s has its status and its type', async (_, status, type, words, changes, asking = {}) => {
    const rows = await gateway.app.count()
    const response = await send(changes, asking)
    expect(response.status).toBe(status)
    expect(await refused(response)).toMatchObject({ type, message: expect.stringMatching(words) })
    expect(await gateway.app.count()).toBe(rows)
  })

  test('of a prompt that is too long has the text that makes agents shorten it', async () => {
    const response = await send({ messages: [{ role: 'user', content: 'word '.repeat(20_000) }] })
    expect(response.status).toBe(400)
    expect((await refused(response)).message).toMatch(/^prompt is too long: \d{5} tokens > 8192 maximum$/)
  })

  test("for a rate has a retry time, and for a budget says that retrying won't help", async () => {
    const slow = gateway.app.key({ rpm: 1 })
    const poor = gateway.app.key({ budget: { nanoUsd: 1, period: 'day' } })
    expect((await send({}, { headers: { 'x-api-key': slow } })).status).toBe(200)
    const late = await send({}, { headers: { 'x-api-key': slow } })
    expect({ status: late.status, ...(await refused(late)) }).toMatchObject({ status: 429, type: 'rate_limit_error' })
    expect(Number(late.headers.get('retry-after'))).toBeGreaterThan(0)
    const broke = await send({}, { headers: { 'x-api-key': poor } })
    expect({ status: broke.status, ...(await refused(broke)) }).toMatchObject({ status: 429, type: 'rate_limit_error' })
    expect(broke.headers.get('x-should-retry')).toBe('false')
  })

  test.each([
    [500, 502, 'api_error'],
    [503, 529, 'overloaded_error'],
    [429, 429, 'rate_limit_error'],
    [400, 400, 'invalid_request_error'],
  ])('of an upstream that returns %d is a %d', async (upstream, status, type) => {
    gateway.upstream.script(errorAnswer(upstream))
    for (const stream of [false, true]) {
      const response = await send({ stream })
      expect({ status: response.status, ...(await refused(response)) }).toMatchObject({ status, type })
      gateway.app.pass(60_000)
    }
  })
})

describe('a stream', () => {
  const [role, ...words] = streamAnswer({ tokens: ['one ', 'two'] }).steps
  const SILENCE = { waitMs: 400 }

  test('that is silent for long has comments before its first event, and pings after it', async () => {
    gateway.upstream.script({
      kind: 'stream',
      steps: [role ?? '', SILENCE, ...words.slice(0, 1), SILENCE, ...words.slice(1)],
    })
    const { message, comments, events } = checkMessageStream(await (await send({ stream: true })).text())
    expect(message.content).toMatchObject([{ text: 'one two' }])
    expect(comments).toBeGreaterThan(0)
    expect(events.filter((name) => name === 'ping').length).toBeGreaterThan(0)
  })

  test('that is interrupted ends in an error event, and nothing that looks like an end', async () => {
    gateway.upstream.script({ kind: 'stream', steps: [role ?? '', ...words.slice(0, 1)], end: 'cut' })
    const { error, events } = checkMessageStream(await (await send({ stream: true })).text())
    expect(error).toMatchObject({ type: 'api_error' })
    expect(events).toEqual(['message_start', 'content_block_start', 'content_block_delta', 'error'])
  })

  test('that fails after a comment has only an error event', async () => {
    gateway.upstream.script({ ...errorAnswer(503), delayMs: 400 })
    const { error, events, comments } = checkMessageStream(await (await send({ stream: true })).text())
    expect({ events, error }).toMatchObject({ events: ['error'], error: { type: 'overloaded_error' } })
    expect(comments).toBeGreaterThan(0)
    gateway.app.pass(60_000)
  })

  test('without content is a message without content', async () => {
    gateway.upstream.script({ kind: 'stream', steps: [toDelta({ role: 'assistant' }), toDelta({}, 'length')] })
    const { message } = checkMessageStream(await (await send({ stream: true })).text())
    expect(message).toMatchObject({ content: [], stop_reason: 'max_tokens' })
  })
})

describe('counting', () => {
  const path = '/messages/count_tokens?beta=true'

  test('returns the tokens of a request, calls nothing, and leaves no row', async () => {
    const rows = await gateway.app.count()
    const asked = gateway.upstream.requests.length
    const count = async (changes: object) => JSON.parse(await (await send(changes, { path })).text()).input_tokens
    const plain = await count({ max_tokens: undefined })
    expect(plain).toBe(10)
    const tools = [{ name: 'weather', input_schema: { type: 'object', properties: { city: { type: 'string' } } } }]
    expect(await count({ tools, system: 'Be brief.' })).toBeGreaterThan(plain + 10)
    expect(gateway.upstream.requests.length).toBe(asked)
    expect(await gateway.app.count()).toBe(rows)
  })

  test('needs a key and an existing model, and counts as a request', async () => {
    const unknown = await send({}, { path, headers: { 'x-api-key': '' } })
    expect({ status: unknown.status, ...(await refused(unknown)) }).toMatchObject({ type: 'authentication_error' })
    const missing = await send({ model: 'nobody/here' }, { path })
    expect({ status: missing.status, ...(await refused(missing)) }).toMatchObject({
      status: 404,
      type: 'not_found_error',
    })
    const wrong = await send({ messages: 7 }, { path })
    expect({ status: wrong.status, ...(await refused(wrong)) }).toMatchObject({ status: 400 })
    const once = gateway.app.key({ rpm: 1, concurrency: 1 })
    expect((await send({}, { path, headers: { 'x-api-key': once } })).status).toBe(200)
    expect((await send({}, { path, headers: { 'x-api-key': once } })).status).toBe(429)
    gateway.app.pass(61_000)
    expect((await send({}, { path, headers: { 'x-api-key': once } })).status).toBe(200)
  })

  test('of a Responses request gives the same, and rejects stored data', async () => {
    const rows = await gateway.app.count()
    const asked = gateway.upstream.requests.length
    const post = (body: object) =>
      send({}, { path: '/responses/input_tokens', body: JSON.stringify({ model: 'acme/large', ...body }) })
    const plain = await post({ input: 'Hello there!' })
    expect(await plain.json()).toEqual({ object: 'response.input_tokens', input_tokens: 10 })
    const told = await post({ instructions: 'Be brief.', input: null })
    expect(await told.json()).toEqual({ object: 'response.input_tokens', input_tokens: expect.any(Number) })
    const tools = await post({ tools: [{ type: 'function', name: 'look', parameters: { type: 'object' } }] })
    expect([tools.status, await tools.json()]).toMatchObject([200, { input_tokens: expect.any(Number) }])
    const kept = await post({ input: 'Hi', previous_response_id: 'resp_1' })
    expect([kept.status, await kept.json()]).toMatchObject([400, { error: { param: 'previous_response_id' } }])
    const missing = await post({ model: 'nobody/here', input: 'Hi' })
    expect([missing.status, await missing.json()]).toMatchObject([404, { error: { code: 'model_not_found' } }])
    const once = gateway.app.key({ rpm: 1 })
    const statuses = []
    for (const body of [JSON.stringify({ model: 'acme/large', input: 'Hi' }), '{']) {
      const headers = { 'x-api-key': once }
      statuses.push((await send({}, { path: '/responses/input_tokens', headers, body })).status)
    }
    expect(statuses).toEqual([200, 429])
    expect(gateway.upstream.requests.length).toBe(asked)
    expect(await gateway.app.count()).toBe(rows)
  })
})

describe('a request that needs a stored conversation', () => {
  const unsupported = { error_code: 'thread_unsupported_request', unsupported: ['thread'] }

  test.each([
    ['/messages', { type: 'create' }],
    ['/messages', { type: 'continue', previous_message_id: 'msg_1' }],
    ['/messages/count_tokens', { type: 'create' }],
  ])('is rejected at %s for a thread %j, with the details that client libraries need', async (path, thread) => {
    const asked = gateway.upstream.requests.length
    const response = await send({ thread, messages: [] }, { path })
    expect([response.status, await response.json()]).toMatchObject([
      400,
      { type: 'error', error: { type: 'invalid_request_error', details: unsupported } },
    ])
    expect(gateway.upstream.requests.length).toBe(asked)
    expect((await send({ thread: null }, { path })).status).toBe(200)
  })

  test('is rejected for a compaction, which has no ordinary response', async () => {
    const response = await send({ compaction: { type: 'summarize' } })
    expect(response.status).toBe(400)
    expect(await refused(response)).toMatchObject({ message: expect.stringMatching(/^compaction: .*not supported/) })
    expect((await send({ compaction: null })).status).toBe(200)
  })
})
