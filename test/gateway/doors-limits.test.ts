/** On every endpoint: rates, slots and budgets hold under concurrency, and say when to retry in the format's words. */
import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { Failure } from '../support/door-clients.ts'
import { answering, answeringAfter } from '../support/door-upstreams.ts'
import { costOf, DOORS, type Door, startDoors, writes } from '../support/doors.ts'
import { forAllTests } from '../support/lifetime.ts'
import { headersFrom } from './limiting.ts'

// Counting is slow under load.
setDefaultTimeout(60_000)

const gateway = forAllTests(startDoors)

const CROWD = 100
const CAP = 10
/** Upstreams bill a token per word, plus the framing of a message; `slack` is a small rest that may stay reserved. */
const TEXTS = { words: 400, prompt: 408, completion: CAP, tpm: 1_000, slack: 50 }
/** Speech has no cap: 21 tokens per eight characters are reserved, and 64 more. */
const SPOKEN = { words: 16, prompt: 16, completion: 200, tpm: 500, slack: 100 }

/** An image of low quality reserves 1,000 tokens, and an input image may have many. */
const DRAWN = { words: 16, prompt: 16, completion: 900, tpm: 1_950, slack: 1_100, held: 2_100_000 }
const EDITED = { ...DRAWN, tpm: 2_300, slack: 1_400, held: 18_500_000 }

const countsOf = ({ client }: Door): typeof TEXTS & { held?: number } => {
  if (client.endpoint === 'image_edits') return EDITED
  if (client.endpoint === 'images') return DRAWN
  return client.endpoint === 'speech' ? SPOKEN : TEXTS
}

type Refusal = Failure & { status: number; headers: Headers }

async function refused(door: Door, asking: Promise<Response>): Promise<Refusal> {
  const response = await asking
  const text = await response.text()
  return { status: response.status, headers: response.headers, ...door.client.refusal(response, text) }
}

const limited = ({ client }: Door, type: string, code: string) => {
  if (client.endpoint === 'messages') return { status: 429, type: 'rate_limit_error', code: null }
  return { status: 429, type: client.endpoint === 'gemini' ? 'RESOURCE_EXHAUSTED' : type, code }
}

describe.each(DOORS)('$name', (door) => {
  const { words, tpm, slack, held, ...counts } = countsOf(door)
  const text = 'word '.repeat(words)
  const used = counts.prompt + (writes(door) ? counts.completion : 0)
  const cost = costOf(counts.prompt, used - counts.prompt)
  let open = () => {}
  beforeEach(() => gateway.calm(door))
  afterEach(() => open())

  const hold = () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    open = resolve
    gateway.near.script(answeringAfter(promise, answering(door.upstream, ['word'], counts)))
  }
  const called = (count: number) => gateway.near.waitFor((seen) => seen.length === count, `${count} calls`)

  test(`of ${CROWD} requests at once, no more are accepted than a budget pays for`, async () => {
    const budget = Math.round(10.5 * (held ?? cost))
    const key = gateway.app.key({ budget: { nanoUsd: budget, period: 'total' } })
    hold()
    const before = gateway.near.requests.length
    const refusals: Refusal[] = []
    const all = Array.from({ length: CROWD }, async (_, at) => {
      const stream = door.upstream.stream !== null && at % 2 === 0
      const response = await gateway.ask(door, { key, text, cap: CAP, stream })
      if (response.status === 200) return response.text()
      return refusals.push(await refused(door, Promise.resolve(response)))
    })
    while (refusals.length + gateway.near.requests.length - before < CROWD) await Bun.sleep(2)
    open()
    await Promise.all(all)
    const served = gateway.near.requests.length - before
    const rows = await gateway.rows(served)
    const spent = rows.reduce((sum, row) => sum + row.cost_nano_usd, 0)
    expect(spent).toBe(served * cost)
    expect(spent).toBeLessThanOrEqual(budget)
    expect(served).toBeGreaterThan(5)
    for (const refusal of refusals) {
      expect(refusal).toMatchObject(limited(door, 'insufficient_quota', 'insufficient_quota'))
      expect(headersFrom(refusal, 'retry-after', 'x-should-retry')).toEqual({ 'x-should-retry': 'false' })
    }
  })

  test('a request over the limit gets a retry time, and succeeds then', async () => {
    const key = gateway.app.key({ rpm: 1 })
    const first = await gateway.ask(door, { key })
    await first.text()
    const standing = {
      'x-ratelimit-limit-requests': '1',
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-reset-requests': '1m0s',
    }
    expect(headersFrom(first, 'x-ratelimit-')).toEqual(standing)
    gateway.app.pass(10_000)
    const late = await refused(door, gateway.ask(door, { key }))
    expect(late).toMatchObject(limited(door, 'requests', 'rate_limit_exceeded'))
    expect(headersFrom(late, 'retry-after')).toEqual({ 'retry-after': '50', 'retry-after-ms': '50000' })
    expect(headersFrom(late, 'x-ratelimit-')).toMatchObject({ 'x-ratelimit-remaining-requests': '0' })
    gateway.app.pass(50_000)
    expect((await gateway.ask(door, { key })).status).toBe(200)
    await gateway.rows(2)
  })

  test('tokens are reserved with the maximum output, and corrected to the actual usage', async () => {
    const key = gateway.app.key({ tpm })
    hold()
    const before = gateway.near.requests.length
    const first = gateway.ask(door, { key, text, cap: 400 })
    await called(before + 1)
    const late = await refused(door, gateway.ask(door, { key, text, cap: 400 }))
    expect(late).toMatchObject(limited(door, 'tokens', 'rate_limit_exceeded'))
    expect(headersFrom(late, 'x-ratelimit-limit-tokens')).toEqual({ 'x-ratelimit-limit-tokens': String(tpm) })
    const free = tpm - used - (door.client.makes === 'text' ? 400 - CAP : 0)
    expect(Number(late.headers.get('x-ratelimit-remaining-tokens'))).toBeLessThan(free + 10)
    open()
    await (await first).text()
    await gateway.rows(1)
    const next = await gateway.ask(door, { key, text: 'a', cap: 1 })
    const left = Number(next.headers.get('x-ratelimit-remaining-tokens'))
    expect(left).toBeLessThan(tpm - used)
    expect(left).toBeGreaterThan(tpm - used - slack)
    await next.text()
  })

  test('a slot is taken until a response has ended', async () => {
    const key = gateway.app.key({ concurrency: 1 })
    hold()
    const before = gateway.near.requests.length
    const first = gateway.ask(door, { key })
    await called(before + 1)
    const late = await refused(door, gateway.ask(door, { key }))
    expect(late).toMatchObject(limited(door, 'requests', 'rate_limit_exceeded'))
    expect(late.headers.get('retry-after')).toBe('1')
    open()
    await (await first).text()
    expect((await gateway.ask(door, { key })).status).toBe(200)
    await gateway.rows(2)
  })

  test("an upstream's rate limit reports its wait", async () => {
    gateway.near.script({
      kind: 'whole',
      status: 429,
      headers: { 'retry-after': '7' },
      body: { error: { message: 'slow down' } },
    })
    const late = await refused(door, gateway.ask(door))
    expect(late).toMatchObject(limited(door, 'requests', 'upstream_rate_limited'))
    expect(late.headers.get('retry-after')).toBe('7')
    expect((await gateway.rows(1))[0]).toMatchObject({ status: 'failed', cost_nano_usd: 0 })
  })
})
