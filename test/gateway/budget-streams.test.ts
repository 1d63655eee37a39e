/**
 * Budgets on every endpoint: a stream's reservation grows while it writes, and the stream ends with an error at the
 * limit.
 */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Budget } from '../../src/domain/limits.ts'
import { createTeam } from '../../src/keys/service.ts'
import { hear } from '../support/door-clients.ts'
import { COUNTS } from '../support/door-upstreams.ts'
import { costOf, DOORS, type Door, type DoorGateway, startDoors, WRITING, writes } from '../support/doors.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'
import { type Behaviour, errorAnswer, type StreamStep, toDelta } from '../support/upstream-answers.ts'

const MAX = 90_000
const STEP = 4_096
const WORD = 'token '
const inTotal = (nanoUsd: number): Budget => ({ nanoUsd, period: 'total' })

const gateway = forAllTests(() => startDoors({ most: MAX, features: '[tools]', config: { heartbeatMs: 0 } }))

type Streaming = (typeof WRITING)[number]

/** Endless by default, and nearly at the maximum speed of separate tokens. */
function writing({ stream }: Streaming, tokens = Number.POSITIVE_INFINITY): Behaviour {
  const counts = { prompt: COUNTS.prompt, completion: tokens }
  function* steps(): Generator<StreamStep> {
    yield* stream.head(counts)
    for (let written = 0; written < tokens; written += 64) {
      yield stream.word(WORD.repeat(64))
      yield { waitMs: 1 }
    }
    yield* stream.tail([WORD], counts)
  }
  return { kind: 'stream', steps: steps(), end: stream.end }
}

const PARAMETERS = { type: 'object', properties: {} }
/** Choices and tools, which cost more. */
const MORE: Record<Door['client']['endpoint'], object[]> = {
  chat: [{ n: 3 }, { n: 2, tools: [{ type: 'function', function: { name: 'look', parameters: PARAMETERS } }] }],
  responses: [{ tools: [{ type: 'function', name: 'look', parameters: PARAMETERS, strict: false }] }],
  messages: [{ tools: [{ name: 'look', input_schema: PARAMETERS }] }],
  completions: [{ n: 2 }],
  gemini: [{ tools: [{ functionDeclarations: [{ name: 'look', parametersJsonSchema: PARAMETERS }] }] }],
  ...{ rerank: [], moderations: [], transcriptions: [], translations: [], speech: [], images: [], image_edits: [] },
  embeddings: [],
}

test('a request that its budget covers reaches its upstream byte for byte as without a budget', async () => {
  const [free, rich] = [gateway.app.key(), gateway.app.key({ budget: inTotal(1e12) })]
  const sentBy = async (door: Door, body: string, key: string) => {
    const before = gateway.near.requests.length
    const response = await gateway.ask(door, { key, body })
    expect([response.status, await response.text()]).toMatchObject([200, expect.any(String)])
    expect(response.headers.has('x-tollgate-output-cap')).toBe(false)
    return gateway.near.requests.slice(before).map(({ path, body: sent }) => ({ path, sent }))
  }
  for (const door of DOORS) {
    await gateway.calm(door)
    const options = {
      text: fc.string({ minLength: 1 }).map((text) => `${text}.`),
      ...(writes(door) ? { stream: fc.boolean(), cap: fc.integer({ min: 1, max: MAX }) } : {}),
      user: fc.constant('ann'),
      more: fc.constantFrom({}, ...MORE[door.client.endpoint]),
    }
    const asked = fc.record(options, { requiredKeys: ['text'] })
    await fc.assert(
      fc.asyncProperty(asked, async ({ more, ...one }) => {
        const body = JSON.stringify({ model: `${door.id}/one`, ...door.client.body(one), ...more })
        expect(await sentBy(door, body, rich)).toEqual(await sentBy(door, body, free))
      }),
      { numRuns: 20 },
    )
  }
})

// A Messages request always has a cap, reserved at the start.
const GROWING = WRITING.filter(({ client }) => client.endpoint !== 'messages')

describe.each(GROWING)('$name, a stream without a cap', (door) => {
  beforeEach(() => gateway.calm(door))

  test('reserves more in steps, without an output cap', async () => {
    const tokens = 20_032
    gateway.near.script(writing(door, tokens))
    const response = await gateway.ask(door, { stream: true, key: gateway.app.key({ budget: inTotal(1e9) }) })
    expect(hear(door.client, await response.text())).toMatchObject({ end: 'whole', failure: null })
    const [row] = await gateway.rows(1)
    const { cost_nano_usd: cost, reserved_completion_tokens: held } = row ?? {}
    expect(cost).toBe(costOf(COUNTS.prompt, tokens))
    expect(held).toBeGreaterThan(tokens - STEP)
    expect(held).toBeLessThanOrEqual(tokens + 2 * STEP)
  })

  test('ends with an error if its budget has nothing left, charged for its output, and goes to no other upstream', async () => {
    const budget = costOf(100, 10_000)
    const name = `ann at ${door.id}`
    gateway.near.script(writing(door))
    const calls = gateway.far.requests.length
    const key = gateway.app.key({ name, budget: inTotal(budget) })
    const response = await gateway.ask(door, { stream: true, key, route: 'both' })
    const text = await response.text()
    if (door.lane === 'translated') door.client.check.stream(text)
    const heard = hear(door.client, text)
    expect(heard).toMatchObject({ end: 'failure', looksWhole: false, failure: { code: 'insufficient_quota' } })
    expect(heard.failure?.message).toContain(`The response ends here: budget exceeded for key \`${name}\` (`)
    const [row] = await gateway.rows(1)
    expect(row).toMatchObject({ status: 'cut', http_status: 200, error_code: 'insufficient_quota', attempts: 1 })
    expect(row?.cost_nano_usd).toBeGreaterThan(budget / 2)
    expect(row?.cost_nano_usd).toBeLessThanOrEqual(budget + costOf(0, STEP))
    const [seen] = gateway.near.requests.slice(-1)
    await until('the end of the call', async () => seen?.abortedAtMs !== null)
    expect(gateway.far.requests.length).toBe(calls)
    // Nothing is reserved, and the remaining budget is too small for a step.
    expect((await gateway.ask(door, { stream: true, key })).status).toBe(429)
  })
})

test.each(GROWING)(
  "$name, a whole response that its budget can't cover is sent a cap, which is reported",
  async (door) => {
    await gateway.calm(door)
    const key = gateway.app.key({ budget: inTotal(costOf(100, 5_000)) })
    const response = await gateway.ask(door, { key })
    expect([response.status, await response.text()]).toMatchObject([200, expect.any(String)])
    const cap = Number(response.headers.get('x-tollgate-output-cap'))
    expect(cap).toBeGreaterThanOrEqual(5_000)
    expect(cap).toBeLessThan(5_100)
    expect(/"max_?(?:output_?)?tokens":(\d+)/i.exec(gateway.near.requests.at(-1)?.body ?? '')?.[1]).toBe(String(cap))
    expect((await gateway.rows(1))[0]).toMatchObject({ reserved_completion_tokens: cap, status: 'ok' })
  },
)

const [CHAT] = WRITING as [Streaming]

test("of several choices with a call each, all end when the budget can't cover one", async () => {
  await gateway.calm(CHAT)
  gateway.near.script(() => writing(CHAT))
  const budget = costOf(200, 3 * STEP)
  const key = gateway.app.key({ budget: inTotal(budget) })
  const body = JSON.stringify({ model: `${CHAT.id}/one`, n: 2, ...CHAT.client.body({ stream: true }) })
  const response = await gateway.ask(CHAT, { body, key })
  expect(hear(CHAT.client, await response.text()).failure?.code).toBe('insufficient_quota')
  const [row] = await gateway.rows(1)
  expect(row).toMatchObject({ status: 'cut', error_code: 'insufficient_quota', attempts: 2 })
  expect(row?.cost_nano_usd).toBeLessThanOrEqual(budget + 2 * costOf(0, STEP))
})

test("a stream reserves more only if its team's budget allows it, too", async () => {
  await gateway.calm(CHAT)
  gateway.near.script(() => writing(CHAT))
  const budget = costOf(100, 10_000)
  gateway.app.change((store, by) => createTeam(store, { name: 'crew', budget: inTotal(budget) }, by))
  const key = gateway.app.key({ team: 'crew', budget: inTotal(1e9) })
  const { failure } = hear(CHAT.client, await (await gateway.ask(CHAT, { stream: true, key })).text())
  expect(failure?.message).toContain('The response ends here: budget exceeded for team `crew` (')
  const [row] = await gateway.rows(1)
  expect(row?.cost_nano_usd).toBeLessThanOrEqual(budget + costOf(0, STEP))
})

test("a disconnected client's growing response stays reserved until it is settled", async () => {
  await gateway.calm(CHAT)
  gateway.near.script(() => writing(CHAT))
  const budget = costOf(100, 20_000)
  const key = gateway.app.key({ budget: inTotal(budget) })
  const leaving = new AbortController()
  const response = await gateway.ask(CHAT, { stream: true, key, signal: leaving.signal })
  const reader = response.body?.getReader()
  for (let bytes = 0; bytes < 150_000; ) bytes += (await reader?.read())?.value?.length ?? 150_000
  leaving.abort()
  // There is room for three times as much while reservations are small.
  const asked = await gateway.ask(CHAT, { cap: 15_000, key })
  expect(asked.status).toBe(429)
})

const GROWN = 20_032
const whole = () => writing(CHAT, GROWN)
const brokenOff = (): Behaviour => ({ kind: 'stream', steps: beginning(200), end: 'reset' })
function* beginning(frames: number): Generator<StreamStep> {
  yield* CHAT.stream.head(COUNTS)
  for (let at = 0; at < frames; at++) {
    yield CHAT.stream.word(WORD.repeat(64))
    yield { waitMs: 1 }
  }
}

const ENDS: [string, near: () => Behaviour, more: Record<string, unknown>, leaves: boolean][] = [
  ['all of it was written', whole, {}, false],
  ['its upstream broke off', brokenOff, {}, false],
  ['another route wrote it', () => errorAnswer(500), {}, false],
  ['each of its choices was a call', whole, { n: 3 }, false],
  ['its client left', () => writing(CHAT), {}, true],
  ['its client left while each of its choices was a call', () => writing(CHAT), { n: 2 }, true],
]

test.each(ENDS)(
  'nothing of a growing stream stays reserved on key or team once %s',
  async (name, near, more, leaves) => {
    await gateway.calm(CHAT)
    gateway.near.script(near)
    gateway.far.script(whole)
    const budget = inTotal(1e9)
    gateway.app.change((store, by) => createTeam(store, { name, budget }, by))
    const key = gateway.app.key({ team: name, budget })
    const body = JSON.stringify({ model: `${CHAT.id}/both`, ...more, ...CHAT.client.body({ stream: true }) })
    const leaving = new AbortController()
    const response = await gateway.ask(CHAT, { body, key, signal: leaving.signal })
    if (leaves) {
      const reader = response.body?.getReader()
      for (let bytes = 0; bytes < 150_000; ) bytes += (await reader?.read())?.value?.length ?? 150_000
      leaving.abort()
    } else await response.text()
    const [row] = await gateway.rows(1)
    expect(row?.cost_nano_usd).toBeGreaterThan(costOf(0, 2 * STEP))
    const held = async (key: string) => {
      const refusal = await (await gateway.ask(CHAT, { key, body: tooDear })).text()
      return /\$(\S+) spent, \$(\S+) reserved/.exec(refusal)?.slice(1).map(Number)
    }
    const spent = (row?.cost_nano_usd ?? 0) / 1e9
    expect(await held(key)).toEqual([spent, 0])
    expect(await held(gateway.app.key({ team: name }))).toEqual([spent, 0])
  },
)
const tooDear = JSON.stringify({ model: `${CHAT.id}/one`, n: 128, ...CHAT.client.body({ cap: MAX }) })

test("a token rate counts a stream's output while it streams", async () => {
  await gateway.calm(CHAT)
  gateway.near.script(() => writing(CHAT))
  const key = gateway.app.key({ tpm: 100_000 })
  const leaving = new AbortController()
  const response = await gateway.ask(CHAT, { stream: true, key, signal: leaving.signal })
  expect(Number(response.headers.get('x-ratelimit-remaining-tokens'))).toBeGreaterThan(95_000)
  const reader = response.body?.getReader()
  for (let bytes = 0; bytes < 150_000; ) bytes += (await reader?.read())?.value?.length ?? 150_000
  const other = await gateway.ask(CHAT, { stream: true, key, signal: leaving.signal })
  expect(Number(other.headers.get('x-ratelimit-remaining-tokens'))).toBeLessThan(90_000)
  leaving.abort()
})

test('64,000 streamed tokens that cost one dollar pass under five dollars per day', async () => {
  const dear = await startDoors({ most: MAX, firstPrice: '{ prompt: "0.000001", completion: "0.000015625" }' })
  try {
    await dear.calm(CHAT)
    dear.near.script(writing(CHAT, 64_000))
    const key = dear.app.key({ budget: { nanoUsd: 5e9, period: 'day' } })
    const response = await dear.ask(CHAT, { stream: true, key })
    expect(hear(CHAT.client, await response.text())).toMatchObject({ end: 'whole' })
    expect((await dear.rows(1))[0]).toMatchObject({
      ...{ status: 'ok', completion_tokens: 64_000, cost_nano_usd: 1e9 + COUNTS.prompt * 1_000 },
    })
  } finally {
    await dear.stop()
  }
})

test('a stream whose estimate exceeds its output ends by its count, and not before', async () => {
  await gateway.calm(CHAT)
  const sentence = '这是一个关于人工智能的测试文本，我们需要计算它的令牌数量。'
  const tokens = 17_000
  const counts = { prompt: COUNTS.prompt, completion: tokens }
  function* steps(): Generator<StreamStep> {
    yield* CHAT.stream.head(counts)
    // 23,500 tokens by the estimate.
    for (let written = 0; written < 1_000; written += 5) {
      yield CHAT.stream.word(sentence.repeat(5))
      yield { waitMs: 1 }
    }
    yield* CHAT.stream.tail([sentence], counts)
  }
  gateway.near.script({ kind: 'stream', steps: steps(), end: CHAT.stream.end })
  const key = gateway.app.key({ budget: inTotal(costOf(100, tokens + 500)) })
  const response = await gateway.ask(CHAT, { stream: true, key })
  expect(hear(CHAT.client, await response.text())).toMatchObject({ end: 'whole', failure: null })
})

test('200 streams without caps end within a step each of a budget for a fifth of them, each with its own error', async () => {
  const streams = 200
  await gateway.calm(CHAT)
  gateway.near.script(() => writing(CHAT))
  const budget = streams * costOf(100, STEP) + 100 * costOf(0, STEP)
  const key = gateway.app.key({ budget: inTotal(budget) })
  const ends = await Promise.all(
    Array.from({ length: streams }, async () => {
      const response = await gateway.ask(CHAT, { stream: true, key })
      return hear(CHAT.client, await response.text()).failure?.code
    }),
  )
  expect(new Set(ends)).toEqual(new Set(['insufficient_quota']))
  const rows = await gateway.rows(streams)
  const spent = rows.reduce((sum, { cost_nano_usd: cost }) => sum + cost, 0)
  expect(spent).toBeGreaterThan(budget * 0.6)
  expect(spent).toBeLessThanOrEqual(budget + streams * costOf(0, STEP))
})

describe('a model that may reason unseen', () => {
  const price = '{ prompt: "0.000001", completion: "0.000002" }'
  let silent: DoorGateway
  beforeAll(async () => {
    const settings = ', max_tokens_per_second: 20000'
    silent = await startDoors({
      most: MAX,
      features: '[reasoning]',
      settings,
      firstPrice: price,
      config: { heartbeatMs: 0 },
    })
  })
  afterAll(() => silent.stop())

  test('reserves more with time, and is rejected before its first token if the budget has nothing left', async () => {
    await silent.calm(CHAT)
    silent.near.script({ kind: 'silent' })
    const budget = costOf(100, 3 * STEP)
    const key = silent.app.key({ budget: inTotal(budget) })
    const calls = silent.far.requests.length
    const asking = silent.ask(CHAT, { stream: true, key, route: 'both' })
    let isOver = false
    void asking.finally(() => {
      isOver = true
    })
    // More than two time steps at the estimated rate of reasoning.
    await until('the end', async () => {
      silent.app.pass(10)
      return isOver
    })
    const response = await asking
    expect(response.status).toBe(429)
    expect(JSON.parse(await response.text()).error.code).toBe('insufficient_quota')
    const [row] = await silent.rows(1)
    expect(row).toMatchObject({ status: 'failed', http_status: 429, error_code: 'insufficient_quota', attempts: 1 })
    expect(row?.cost_nano_usd).toBeGreaterThan(costOf(0, STEP))
    expect(row?.cost_nano_usd).toBeLessThanOrEqual(budget)
    expect(silent.far.requests.length).toBe(calls)
  })

  test('ends with an error frame if the budget has nothing left after hidden reasoning', async () => {
    await silent.calm(CHAT)
    const hidden = { reasoning_details: [{ type: 'reasoning.summary', summary: 'Well.' }], reasoning: 'Well.' }
    silent.near.script({ kind: 'stream', steps: [toDelta({ role: 'assistant', ...hidden })], end: 'hang' })
    const key = silent.app.key({ budget: inTotal(costOf(100, 3 * STEP)) })
    const response = await silent.ask(CHAT, { stream: true, key })
    const reading = response.text()
    let isOver = false
    void reading.finally(() => {
      isOver = true
    })
    await until('the end', async () => {
      silent.app.pass(10)
      return isOver
    })
    const heard = hear(CHAT.client, await reading)
    expect(heard).toMatchObject({ end: 'failure', looksWhole: false, failure: { code: 'insufficient_quota' } })
    const [row] = await silent.rows(1)
    expect(row).toMatchObject({ status: 'cut', http_status: 200, error_code: 'insufficient_quota', attempts: 1 })
  })

  test('that has begun to write reserves by its output from then on', async () => {
    await silent.calm(CHAT)
    const steps = [
      toDelta({ role: 'assistant', content: 'one' }),
      { waitMs: 600 },
      toDelta({ content: ' two' }, 'stop'),
    ]
    silent.near.script({ kind: 'stream', steps, end: 'done' })
    const response = await silent.ask(CHAT, {
      stream: true,
      key: silent.app.key({ budget: inTotal(costOf(100, 2 * STEP)) }),
    })
    expect(hear(CHAT.client, await response.text())).toMatchObject({ text: 'one two', end: 'whole' })
  })
})
