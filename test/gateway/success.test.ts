/** Successful answers: bytes to the client, the upstream's request, and the cost. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { CREDENTIAL } from '../support/app.ts'
import { toFrames } from '../support/frames.ts'
import { costOf, HELLO, HELLO_TOKENS, startGateway, usageOf } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { obliging, type Seen } from '../support/upstream.ts'
import { errorAnswer, streamAnswer, toDelta } from '../support/upstream-answers.ts'

let rows = 0
const gateway = forAllTests(startGateway)
beforeEach(async () => {
  gateway.upstream.script(obliging)
  rows = await gateway.app.count()
})

/** The test's own row, and the upstream's view of it. */
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

test('more tools and stop texts than OpenAI accepts go to the upstream, whose error the client gets', async () => {
  const tools = Array.from({ length: 129 }, (_, index) => ({ type: 'function', function: { name: `f${index}` } }))
  const stop = ['1', '2', '3', '4', '5']
  expect((await gateway.chat({ tools, stop })).status).toBe(200)
  expect(gateway.upstream.requests.at(-1)?.json).toMatchObject({ tools, stop })
  gateway.upstream.script(errorAnswer(400, 'array too long'))
  const refused = await gateway.chat({ tools, stop })
  expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining('array too long')])
})

test('a whole response is ours in everything but its text, and costs its usage', async () => {
  const response = await gateway.chat({ model: 'fast', user: 'u-1' })
  const { row, seen } = await recorded()
  expectSent(seen, row.id)
  expect(seen.json).toEqual({ ...HELLO, model: 'large-v1', user: 'u-1' })
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'content-type': 'application/json',
    'x-request-id': `req_${row.id}`,
    'x-tollgate-upstream': 'paid',
    'x-tollgate-attempts': '1',
    'x-tollgate-passthrough': 'false',
  })
  expect(await response.json()).toEqual({
    id: `chatcmpl-${row.id}`,
    object: 'chat.completion',
    created: gateway.app.clock.nowMs / 1000,
    model: 'acme/large',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'tok0 tok1 tok2 tok3 tok4 ', refusal: null, annotations: [] },
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

describe("usage before further text isn't final: the larger of it and of a count is billed, if it", () => {
  test.each([
    ['says only what was read', 0, 2, 2],
    ['says one token of two hundred', 1, 200, 200],
    ['says more than we count', 90, 2, 90],
  ])('%s', async (_, reported, words, billed) => {
    const steps = [...streamAnswer({ tokens: Array.from({ length: words }, () => ' word'), usage: null }).steps]
    const said = { choices: [], usage: { prompt_tokens: 50, completion_tokens: reported } }
    gateway.upstream.script({ kind: 'stream', steps: [...steps.slice(0, 2), said, ...steps.slice(2)] })
    expect(toFrames(await (await gateway.chat({ stream: true })).text()).done).toBe(true)
    const { row } = await recorded()
    expect(row).toMatchObject({ status: 'ok', estimated: 1, prompt_tokens: 50, cost_nano_usd: costOf(50, billed) })
  })

  test('and usage after the last token is final, whatever was held back until then', async () => {
    const call = { index: 0, id: 'c', type: 'function', function: { name: 'look', arguments: '' } }
    const tools = [{ type: 'function', function: { name: 'look' } }]
    const usage = { prompt_tokens: 10, completion_tokens: 1 }
    const { steps } = streamAnswer({ tokens: [], finish: 'tool_calls', usage })
    gateway.upstream.script({ kind: 'stream', steps: [toDelta({ tool_calls: [call] }), ...steps] })
    const text = await (await gateway.chat({ stream: true, tools })).text()
    expect(text).toContain('{}')
    expect((await recorded()).row).toMatchObject({ estimated: 0, cost_nano_usd: costOf(10, 1) })
  })
})

test('a free local upstream is billed nothing and sent no credential', async () => {
  await (await gateway.chat({ model: 'local/tiny' })).text()
  const { row, seen } = await recorded()
  expect(seen.headers.authorization).toBeUndefined()
  expect(seen.json).toMatchObject({ model: 'tiny:1b' })
  expect(row).toMatchObject({ upstream: 'here', prompt_tokens: 10, cost_nano_usd: 0, reserved_nano_usd: 0 })
})

test("unknown fields go to the upstream, our own headers and the client’s don't", async () => {
  const headers = { 'x-private': 'mine', cookie: 'a=b', 'x-client-request-id': 'forged-1' }
  await (await gateway.chat({ top_k: 5, chat_template_kwargs: { thinking: false } }, { headers })).text()
  const { row, seen } = await recorded()
  expectSent(seen, row.id)
  expect(seen.json).toMatchObject({ top_k: 5, chat_template_kwargs: { thinking: false } })
  expect(seen.headers).not.toContainAnyKeys(['x-private', 'cookie'])
})

test("the log has each request's cost, and not its content", async () => {
  await (await gateway.chat({ stream: true })).text()
  const { row } = await recorded()
  const line = (await gateway.app.logLines()).find((each) => each.id === row.id)
  expect(line).toMatchObject({ msg: 'request finished', key: row.key_id, model: 'acme/large', status: 'ok', http: 200 })
  expect(line).toMatchObject({ prompt_tokens: 10, completion_tokens: 5, cost_nano_usd: costOf(10, 5) })
  const text = await gateway.app.logText()
  for (const word of ['Hello there!', 'tok0', ...gateway.app.secrets]) expect(text).not.toContain(word)
})
