/** One model, two upstreams: the second takes over from any failure before the first word, and never after it. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { CREDENTIAL } from '../support/app.ts'
import { toFrames } from '../support/frames.ts'
import { HELLO_COUNTED } from '../support/gateway.ts'
import { expectEnvelope } from '../support/scenario.ts'
import {
  COUNTED,
  costAt,
  endWell,
  expectHonest,
  reading,
  type Several,
  startSeveral,
} from '../support/several-upstreams.ts'
import type { Script } from '../support/upstream.ts'
import { errorAnswer, toDelta } from '../support/upstream-answers.ts'

let several: Several
let rows = 0
beforeAll(async () => {
  several = await startSeveral({
    deadlines: 'headers: 200ms, first_token: 200ms, idle: 200ms, total_whole: 200ms',
  })
})
beforeEach(async () => {
  several.calm()
  rows = await several.app.count()
})
afterAll(() => endWell(several))

const SECRET = `the first one says ${CREDENTIAL}`
const echo = { error: { message: SECRET, code: 'x', param: null } }
const role = toDelta({ role: 'assistant', content: '' })
const STREAM = { stream: true, stream_options: { include_usage: true } }

interface Failure {
  name: string
  script: Script
  /** Default: both ways. */
  stream?: boolean
  /** An upstream that timed out may have worked, so its prompt is billed. Default: failures are free. */
  isGivenUp?: boolean
}

const FAILURES: Failure[] = [
  { name: 'closes the connection', script: { kind: 'reset' } },
  ...[500, 503, 408, 409].map((status) => ({ name: `answers ${status}`, script: errorAnswer(status, SECRET) })),
  { name: 'answers 429', script: errorAnswer(429, SECRET, { 'retry-after': '9' }) },
  ...[401, 402, 403, 404, 413].map((status) => ({ name: `answers ${status}`, script: errorAnswer(status, SECRET) })),
  { name: 'answers HTML with 200', script: { kind: 'whole', body: `<h1>${SECRET}</h1>` } },
  { name: 'answers a bare error with 200', script: { kind: 'whole', body: echo } },
  { name: 'says nothing', script: { kind: 'silent' }, stream: true },
  { name: 'says nothing', script: { kind: 'silent' }, stream: false, isGivenUp: true },
  {
    name: 'says no more than its headers',
    script: { kind: 'stream', steps: [], end: 'hang' },
    stream: true,
    isGivenUp: true,
  },
  ...(['eof', 'cut', 'reset', 'hang'] as const).map((end) => ({
    name: `says a role, then: ${end}`,
    script: { kind: 'stream' as const, steps: [role], end },
    stream: true,
    isGivenUp: end === 'hang',
  })),
  { name: 'says a role, then an error', script: { kind: 'stream', steps: [role, echo] }, stream: true },
  { name: 'says its usage, then an error', script: { kind: 'stream', steps: [role, counted(), echo] }, stream: true },
]

function counted() {
  return { choices: [], usage: { prompt_tokens: 777, completion_tokens: 77, total_tokens: 854 } }
}

const BOTH = FAILURES.flatMap((row) =>
  (row.stream === undefined ? [true, false] : [row.stream]).map((stream) => ({ ...row, stream })),
)

describe('a first upstream that', () => {
  test.each(BOTH)('$name is replaced by the second, stream: $stream', async ({ script, stream, isGivenUp }) => {
    const { app, first, second, chat, calls } = several
    first.script(script)
    const [firsts, seconds] = [first.requests.length, second.requests.length]
    const response = await chat(stream ? STREAM : {})
    const text = await response.text()
    expect({ status: response.status, text }).toMatchObject({ status: 200 })
    expect(response.headers.get('x-tollgate-upstream')).toBe('second')
    expect(response.headers.get('x-tollgate-attempts')).toBe('2')
    const cost = costAt('second', COUNTED.prompt_tokens, COUNTED.completion_tokens)
    const { content, usage } = stream ? readStream(text) : readWhole(text)
    expect(content).toBe('this is second')
    const unheard = isGivenUp ? HELLO_COUNTED : 0
    const sums = { ...COUNTED, prompt_tokens: COUNTED.prompt_tokens + unheard }
    const sum = cost + costAt('first', unheard, 0)
    expect(usage).toMatchObject({ prompt_tokens: sums.prompt_tokens, cost_nano_usd: sum })
    expect(text).not.toContain('first')

    expect(first.requests.length - firsts).toBe(1)
    expect(second.requests.slice(seconds).map(({ json }) => json?.model)).toEqual(['two'])
    const row = (await app.settled(rows + 1)).at(-1)
    expect(row).toMatchObject({ upstream: 'second', upstream_model: 'two', status: 'ok', http_status: 200 })
    expect(row).toMatchObject({ attempts: 2, estimated: isGivenUp ? 1 : 0, cost_nano_usd: sum, ...sums })
    const made = calls(row?.id ?? '')
    expect(made).toMatchObject([{ number: 2, reason: 'fallback', upstream: 'second', status: 'ok', ...COUNTED }])
    expect(made[0]?.cost_nano_usd).toBe(cost)
    const given = reading(app, (sqlite) =>
      sqlite.query<object, [string]>('SELECT * FROM calls WHERE request_id = ? AND number = 1').get(row?.id ?? ''),
    )
    expect(given).toMatchObject({
      reason: 'first',
      upstream: 'first',
      upstream_model: 'one',
      status: 'failed',
      estimated: isGivenUp ? 1 : 0,
    })
    expect(second.requests.at(-1)?.headers['x-client-request-id']).toBe(`${row?.id}-2`)
  })
})

test.each([
  ['refuses connections', 'acme/dead', true],
  ['refuses connections', 'acme/dead', false],
  ['has a name that does not resolve', 'acme/nowhere', true],
  ['has a name that does not resolve', 'acme/nowhere', false],
])('so is one that %s (%s, stream: %p)', async (_, model, stream) => {
  // Its own gateway: penalties of such an upstream would carry over.
  const { app, chat, stop } = await startSeveral()
  const response = await chat({ model, stream })
  expect(response.status).toBe(200)
  expect(response.headers.get('x-tollgate-attempts')).toBe('2')
  expect(await response.text()).toContain('second')
  expect(await app.settled(1)).toMatchObject([{ status: 'ok', upstream: 'second', attempts: 2 }])
  await expectHonest(app)
  await stop()
})

function readStream(text: string) {
  const { frames, content, done } = toFrames(text)
  expect(done).toBe(true)
  return { content, usage: frames.at(-1)?.usage }
}

function readWhole(text: string) {
  const { choices, usage } = JSON.parse(text)
  return { content: choices[0].message.content, usage }
}

test.each([
  ['an error', { kind: 'stream', steps: [role, toDelta({ content: 'one' }), { waitMs: 30 }, echo] }],
  ['a cut', { kind: 'stream', steps: [role, toDelta({ content: 'one' }), { waitMs: 30 }], end: 'cut' }],
  ['thoughts and a reset', { kind: 'stream', steps: [toDelta({ reasoning: 'hm' }), { waitMs: 30 }], end: 'reset' }],
] as [string, Script][])('after the first word and %s nothing is tried again', async (_, script) => {
  const { app, first, second, chat, calls } = several
  first.script(script)
  const seconds = second.requests.length
  const response = await chat({ stream: true })
  expect(response.headers.get('x-tollgate-upstream')).toBe('first')
  expect(response.headers.get('x-tollgate-attempts')).toBe('1')
  const { done, error } = toFrames(await response.text())
  expect({ done, code: error?.code }).toEqual({ done: false, code: 'upstream_failed' })
  const row = (await app.settled(rows + 1)).at(-1)
  expect(row).toMatchObject({ status: 'cut', upstream: 'first', attempts: 1, estimated: 1 })
  expect(calls(row?.id ?? '')).toEqual([])
  expect(second.requests).toHaveLength(seconds)
})

describe("the first upstream's error about the request", () => {
  test.each([
    [400, 'string_above_max_length'],
    [400, null],
    [422, 'invalid_value'],
  ])("%i with the code %p is reported, and the second isn't called", async (status, code) => {
    const { app, first, second, chat } = several
    const error = { message: 'Not like that.', type: 'invalid_request_error', param: 'messages[0]', code }
    first.script({ kind: 'whole', status, body: { error } })
    const seconds = second.requests.length
    const response = await chat()
    expectEnvelope(response, await response.text(), error)
    expect(response.status).toBe(status)
    expect(second.requests).toHaveLength(seconds)
    expect((await app.settled(rows + 1)).at(-1)).toMatchObject({ status: 'failed', attempts: 1, cost_nano_usd: 0 })
  })

  test.each(['context_length_exceeded', 'unsupported_parameter', 'unsupported_value'])(
    'leads to the second upstream if it is only about the first (%s)',
    async (code) => {
      several.first.script({ kind: 'whole', status: 400, body: { error: { message: 'no', code } } })
      const response = await several.chat()
      expect(response.status).toBe(200)
      expect(response.headers.get('x-tollgate-upstream')).toBe('second')
    },
  )

  test('is reported if all agree', async () => {
    const error = { message: 'Too long.', code: 'context_length_exceeded', param: 'messages' }
    for (const each of [several.first, several.second]) each.script({ kind: 'whole', status: 400, body: { error } })
    const response = await several.chat()
    expect(response.status).toBe(400)
    expectEnvelope(response, await response.text(), { code: 'context_length_exceeded', param: 'messages' })
    expect((await several.app.settled(rows + 1)).at(-1)).toMatchObject({ attempts: 2, upstream: 'second' })
  })

  test("isn't reported for a smaller upstream if a larger one failed otherwise", async () => {
    const error = { message: 'Too long for this one.', code: 'context_length_exceeded' }
    several.first.script(errorAnswer(500))
    several.second.script({ kind: 'whole', status: 400, body: { error } })
    const response = await several.chat()
    const text = await response.text()
    expect({ status: response.status, text }).toMatchObject({ status: 502 })
    expect(text).toContain('`first` returned 500')
  })
})

describe('a route that supports less than its model', () => {
  const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }]
  test.each([
    ['with tools, which it does not know', { tools }],
    ['for more than it writes', { max_tokens: 51 }],
    ['that is longer than it reads', { messages: [{ role: 'user', content: 'What is this about? '.repeat(60) }] }],
  ])("isn't called for a request %s", async (_, body) => {
    const { app, first, chat } = several
    const firsts = first.requests.length
    const response = await chat({ model: 'acme/narrow', ...body })
    expect(response.status).toBe(200)
    expect(response.headers.get('x-tollgate-upstream')).toBe('second')
    expect(response.headers.get('x-tollgate-attempts')).toBe('1')
    expect(first.requests).toHaveLength(firsts)
    expect((await app.settled(rows + 1)).at(-1)).toMatchObject({
      upstream: 'second',
      attempts: 1,
      cost_nano_usd: costAt('second', 10, 3),
    })
  })

  test('gets only requests that it supports', async () => {
    const response = await several.chat({ model: 'acme/narrow', max_tokens: 50 })
    expect(response.headers.get('x-tollgate-upstream')).toBe('first')
  })
})
