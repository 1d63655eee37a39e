/** Answers that went well: the bytes a client gets, what the upstream was sent, and what the ledger says it cost. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { CREDENTIAL } from '../support/app.ts'
import { toFrames } from '../support/frames.ts'
import { costOf, type Gateway, HELLO, HELLO_TOKENS, startGateway } from '../support/gateway.ts'
import { obliging, type Seen } from '../support/upstream.ts'
import { streamAnswer, toDelta, wholeAnswer } from '../support/upstream-answers.ts'

let gateway: Gateway
let rows = 0
beforeAll(async () => {
  gateway = await startGateway()
})
afterAll(() => gateway.stop())
beforeEach(() => {
  gateway.upstream.script(obliging)
  rows = gateway.app.rows().length
})

/** The row of the request that a test has just made, and what the upstream saw of it. */
async function recorded() {
  const row = (await gateway.app.settled(rows + 1)).at(-1)
  const seen = gateway.upstream.requests.at(-1)
  if (!row || !seen) throw new Error('the upstream saw nothing')
  return { row, seen }
}

function expectSent(seen: Seen, id: string): void {
  expect(seen).toMatchObject({ method: 'POST', path: '/v1/chat/completions' })
  expect(seen.headers['x-client-request-id']).toBe(`${id}-1`)
  expect(seen.headers.authorization).toBe(`Bearer ${CREDENTIAL}`)
  expect(JSON.stringify(seen)).not.toContain(gateway.key)
}

const usageOf = (prompt: number, completion: number, cached = 0) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
  prompt_tokens_details: { cached_tokens: cached },
  completion_tokens_details: { reasoning_tokens: 0 },
  cost_nano_usd: costOf(prompt, completion, cached),
  cost: costOf(prompt, completion, cached) / 1e9,
})

test('a whole answer is ours in everything but its words, and costs what it says', async () => {
  const response = await gateway.chat({ model: 'fast', user: 'u-1' })
  const { row, seen } = await recorded()
  expectSent(seen, row.id)
  expect(seen.json).toEqual({ ...HELLO, model: 'large-v1', user: 'u-1' })
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'content-type': 'application/json',
    'x-request-id': `req_${row.id}`,
    'x-tollgate-upstream': 'paid',
    'x-tollgate-attempts': '1',
  })
  expect(await response.json()).toEqual({
    id: `chatcmpl-${row.id}`,
    object: 'chat.completion',
    created: gateway.app.clock.nowMs / 1000,
    model: 'acme/large',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'tok0 tok1 tok2 tok3 tok4 ', refusal: null },
        finish_reason: 'stop',
        logprobs: null,
      },
    ],
    usage: usageOf(10, 5),
  })
  expect(row).toMatchObject({
    model: 'acme/large',
    upstream: 'paid',
    status: 'ok',
    http_status: 200,
    error_code: null,
    stream: 0,
    created_ms: gateway.app.clock.nowMs,
    prompt_tokens: 10,
    completion_tokens: 5,
    estimated: 0,
    reserved_prompt_tokens: HELLO_TOKENS,
    reserved_completion_tokens: 1000,
    reserved_nano_usd: costOf(HELLO_TOKENS, 1000),
    cost_nano_usd: costOf(10, 5),
    attempts: 1,
    user: 'u-1',
  })
})

describe.each([false, true])('a stream with include_usage %p', (include) => {
  const options = include ? { stream_options: { include_usage: true } } : {}

  test('has exactly the frames of the contract', async () => {
    const response = await gateway.chat({ stream: true, ...options })
    const text = await response.text()
    const { row, seen } = await recorded()
    expectSent(seen, row.id)
    expect(seen.json).toMatchObject({ stream: true, stream_options: { include_usage: true } })
    const headers = Object.fromEntries(response.headers)
    expect(headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      'x-request-id': `req_${row.id}`,
    })
    expect(headers).not.toContainAnyKeys(['content-length', 'content-encoding'])

    const head = {
      id: `chatcmpl-${row.id}`,
      object: 'chat.completion.chunk',
      created: gateway.app.clock.nowMs / 1000,
      model: 'acme/large',
    }
    const foot = include ? { usage: null } : {}
    const frame = (delta: object, finish: string | null = null) => {
      return { ...head, choices: [{ index: 0, delta, finish_reason: finish }], ...foot }
    }
    const { frames, done } = toFrames(text)
    expect(done).toBe(true)
    expect(frames).toEqual([
      frame({ role: 'assistant', content: '', refusal: null }),
      ...[0, 1, 2, 3, 4].map((i) => frame({ content: `tok${i} ` })),
      frame({}, 'stop'),
      ...(include ? [{ ...head, choices: [], usage: usageOf(10, 5) }] : []),
    ] as typeof frames)
    expect(row).toMatchObject({ status: 'ok', stream: 1, estimated: 0, cost_nano_usd: costOf(10, 5) })
  })
})

test('a free local upstream is billed nothing and sent no credential', async () => {
  await (await gateway.chat({ model: 'local/tiny' })).text()
  const { row, seen } = await recorded()
  expect(seen.headers.authorization).toBeUndefined()
  expect(seen.json).toMatchObject({ model: 'tiny:1b' })
  expect(row).toMatchObject({ upstream: 'here', prompt_tokens: 10, cost_nano_usd: 0, reserved_nano_usd: 0 })
})

test('unknown fields travel on to the upstream, our own headers and the client’s do not', async () => {
  const headers = { 'x-private': 'mine', cookie: 'a=b', 'x-client-request-id': 'forged-1' }
  await (await gateway.chat({ top_k: 5, chat_template_kwargs: { thinking: false } }, { headers })).text()
  const { row, seen } = await recorded()
  expectSent(seen, row.id)
  expect(seen.json).toMatchObject({ top_k: 5, chat_template_kwargs: { thinking: false } })
  expect(seen.headers).not.toContainAnyKeys(['x-private', 'cookie'])
})

describe('usage', () => {
  const cached = { prompt_tokens: 100, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 80 } }
  const lying = { prompt_tokens: 5, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 9_999 } }
  // "tok0 " to "tok4 " are 25 bytes: 7 tokens by estimate.
  const TABLE = [
    { name: 'with cached tokens', usage: cached, tokens: [100, 2, 80], estimated: 0 },
    { name: 'with more cached tokens than tokens', usage: lying, tokens: [5, 1, 5], estimated: 0 },
    { name: 'that is missing', usage: null, tokens: [HELLO_TOKENS, 7, 0], estimated: 1 },
    {
      name: 'of texts',
      usage: { prompt_tokens: '5', completion_tokens: '1' },
      tokens: [HELLO_TOKENS, 7, 0],
      estimated: 1,
    },
    {
      name: 'below zero',
      usage: { prompt_tokens: -5, completion_tokens: 1 },
      tokens: [HELLO_TOKENS, 7, 0],
      estimated: 1,
    },
  ]
  const CASES = TABLE.flatMap((row) => [false, true].map((stream) => ({ ...row, stream })))

  test.each(CASES)('$name is billed alike, stream: $stream', async ({ usage, tokens, estimated, stream }) => {
    const [prompt = 0, completion = 0, read = 0] = tokens
    const answer = { usage: usage as typeof cached | null }
    gateway.upstream.script(stream ? streamAnswer(answer) : wholeAnswer(answer))
    const response = await gateway.chat(stream ? { stream, stream_options: { include_usage: true } } : {})
    const text = await response.text()
    const told = stream ? toFrames(text).frames.at(-1)?.usage : JSON.parse(text).usage
    expect(told).toEqual(usageOf(prompt, completion, read))
    expect((await recorded()).row).toMatchObject({
      status: 'ok',
      prompt_tokens: prompt,
      completion_tokens: completion,
      cached_tokens: read,
      estimated,
      cost_nano_usd: costOf(prompt, completion, read),
    })
  })
})

describe('a stream arrives whole', () => {
  const words = ['déjà ', 'vu — ', '\u2028', '"quoted"\n', '🦊'.repeat(20)]
  const big = ['x'.repeat(1_000_000)]
  test.each([
    ['one byte at a time', streamAnswer({ tokens: words, bytesPerWrite: 1 }), words],
    ['compressed', streamAnswer({ tokens: words, gzip: true }), words],
    ['with a huge event', streamAnswer({ tokens: big }), big],
    ['without a last blank line', streamAnswer({ tokens: words, end: 'eof' }), words],
    ['with [DONE] but no finish', streamAnswer({ tokens: words, finish: null }), words],
  ])('%s', async (_, script, tokens) => {
    gateway.upstream.script(script)
    const { content, done, frames } = toFrames(await (await gateway.chat({ stream: true })).text())
    expect(content).toBe(tokens.join(''))
    expect(done).toBe(true)
    expect(frames.at(-1)?.choices[0]).toEqual({ index: 0, delta: {}, finish_reason: 'stop' })
    expect((await recorded()).row).toMatchObject({ status: 'ok', completion_tokens: tokens.length, estimated: 0 })
  })

  test('with a finish reason that came along with its last words, and CRLF line ends', async () => {
    const frame = (step: unknown) => `data: ${JSON.stringify(step)}\r\n\r\n`
    gateway.upstream.script({
      kind: 'stream',
      steps: [': hello\r\n\r\n', frame(toDelta({ content: 'a' })), frame(toDelta({ content: 'b' }, 'length'))],
    })
    const { content, frames } = toFrames(await (await gateway.chat({ stream: true })).text())
    expect(content).toBe('ab')
    expect(frames.map((each) => each.choices[0]?.finish_reason)).toEqual([null, null, null, 'length'])
  })
})

test('a whole compressed answer arrives, and does not claim to be compressed', async () => {
  gateway.upstream.script(wholeAnswer({ tokens: ['déjà vu'], gzip: true }))
  const response = await gateway.chat()
  expect(response.headers.get('content-encoding')).toBeNull()
  expect(await response.json()).toMatchObject({ choices: [{ message: { content: 'déjà vu' } }] })
})

test('the log says of each request what it cost, and not what was said', async () => {
  await (await gateway.chat({ stream: true })).text()
  const { row } = await recorded()
  const line = (await gateway.app.logLines()).find((each) => each.id === row.id)
  expect(line).toMatchObject({ msg: 'request', key: row.key_id, model: 'acme/large', status: 'ok', http: 200 })
  expect(line).toMatchObject({ prompt_tokens: 10, completion_tokens: 5, cost_nano_usd: costOf(10, 5) })
  const text = await gateway.app.logText()
  for (const word of ['Hello there!', 'tok0', ...gateway.app.secrets]) expect(text).not.toContain(word)
})
