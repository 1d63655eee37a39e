/** Rates and concurrency of keys: admission, messages of refusals, and response headers. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/domain/error.ts'
import type { Reservation } from '../../src/limits/limiter.ts'
import { RateLimiters } from '../../src/limits/rates.ts'
import { at, budget, CENT, createLimiter, held, limited, refused, tokens, toTeam } from './asking.ts'

describe('a key with 3 requests per minute', () => {
  const key = limited({ rpm: 3 })

  test('has a burst of 3, and is told the wait for the fourth', () => {
    const limiter = createLimiter()
    for (const ms of [0, 1_000, 2_000]) held(limiter.admit(key, null, tokens(1), at(ms)))
    const error = refused(limiter.admit(key, null, tokens(1), at(58_426)))
    expect(error.message).toStartWith(
      'Rate limit reached for key `ann` on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 1.574s. ',
    )
    expect(error).toMatchObject({ status: 429, type: 'requests', code: 'rate_limit_exceeded', param: null })
    expect(error.headers).toEqual({
      'retry-after': '2',
      'retry-after-ms': '1574',
      'x-ratelimit-limit-requests': '3',
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-reset-requests': '3.574s',
    })
    refused(limiter.admit(key, null, tokens(1), at(59_999)))
    held(limiter.admit(key, null, tokens(1), at(60_000)))
    refused(limiter.admit(key, null, tokens(1), at(60_000)))
  })

  test('does not count refused requests', () => {
    const limiter = createLimiter()
    for (let i = 0; i < 3; i++) held(limiter.admit(key, null, tokens(1), at(0)))
    for (let ms = 0; ms < 60_000; ms += 1_000) refused(limiter.admit(key, null, tokens(1), at(ms)))
    for (let i = 0; i < 3; i++) held(limiter.admit(key, null, tokens(1), at(60_000)))
  })

  test('gets a request back that was never dispatched, once', () => {
    const limiter = createLimiter()
    for (let i = 0; i < 2; i++) held(limiter.admit(key, null, tokens(1), at(0)))
    const reservation = held(limiter.admit(key, null, tokens(1), at(0)))
    reservation.cancel()
    reservation.cancel()
    reservation.settle(tokens(9))
    held(limiter.admit(key, null, tokens(1), at(1)))
    refused(limiter.admit(key, null, tokens(1), at(2)))
  })

  test('that is changed to 1 waits until the window is below that', () => {
    const limiter = createLimiter()
    for (const ms of [0, 1_000, 2_000]) held(limiter.admit(key, null, tokens(1), at(ms)))
    const changed = limited({ rpm: 1 })
    expect(refused(limiter.admit(changed, null, tokens(1), at(2_000))).message).toContain(
      'Limit 1, Used 3, Requested 1. Please try again in 1m0s.',
    )
    refused(limiter.admit(changed, null, tokens(1), at(61_999)))
    held(limiter.admit(changed, null, tokens(1), at(62_000)))
  })

  test('is independent of other keys', () => {
    const limiter = createLimiter()
    for (let i = 0; i < 3; i++) held(limiter.admit(key, null, tokens(1), at(0)))
    held(limiter.admit(limited({ rpm: 3 }, { id: 'k2' }), null, tokens(1), at(0)))
  })

  test('keeps its usage while other keys come and go', () => {
    const limiter = createLimiter()
    for (let i = 0; i < 3; i++) held(limiter.admit(key, null, tokens(1), at(30_000)))
    const other = limited({ rpm: 3 }, { id: 'k2' })
    for (const ms of [0, 60_000, 89_999]) limiter.admit(other, null, tokens(1), at(ms))
    refused(limiter.admit(key, null, tokens(1), at(89_999)))
  })
})

describe('a key with 1,000 tokens per minute', () => {
  const key = limited({ tpm: 1_000 })

  test('reserves the maximum usage of a request, and corrects it to the actual usage', () => {
    const limiter = createLimiter()
    const reservation = held(limiter.admit(key, null, tokens(900), at(0)))
    const error = refused(limiter.admit(key, null, tokens(200), at(110)))
    expect(error.message).toStartWith(
      'Rate limit reached for key `ann` on tokens per min (TPM): Limit 1000, Used 900, Requested 200. Please try again in 59.89s. ',
    )
    expect(error.message).toContain('max_tokens')
    expect(error).toMatchObject({ status: 429, type: 'tokens', code: 'rate_limit_exceeded' })
    expect(error.headers).toMatchObject({ 'retry-after': '60', 'retry-after-ms': '59890' })
    reservation.settle(tokens(300))
    reservation.settle(tokens(0))
    expect(held(limiter.admit(key, null, tokens(200), at(130))).headers).toEqual({
      'x-ratelimit-limit-tokens': '1000',
      'x-ratelimit-remaining-tokens': '500',
      'x-ratelimit-reset-tokens': '1m0s',
    })
  })

  test('pays for a response longer than estimated, and never has less than zero left', () => {
    const limiter = createLimiter()
    held(limiter.admit(key, null, tokens(10), at(0))).settle(tokens(1_500))
    const error = refused(limiter.admit(key, null, tokens(10), at(102)))
    expect(error.message).toContain('Limit 1000, Used 1500, Requested 10.')
    expect(error.headers['x-ratelimit-remaining-tokens']).toBe('0')
    held(limiter.admit(key, null, tokens(1_000), at(60_000)))
  })

  test('is not charged now for requests that settle after their minute', () => {
    const limiter = createLimiter()
    const reservation = held(limiter.admit(key, null, tokens(900), at(0)))
    held(limiter.admit(key, null, tokens(900), at(60_000)))
    reservation.settle(tokens(0))
    expect(refused(limiter.admit(key, null, tokens(200), at(60_002))).message).toContain('Used 900,')
  })

  test('reserves more for a further call, and refuses none', () => {
    const limiter = createLimiter()
    const reservation = held(limiter.admit(key, null, tokens(600), at(0)))
    for (const more of [1_200, 100]) expect(reservation.raise(tokens(more))).toBeNull()
    expect(refused(limiter.admit(key, null, tokens(1), at(1))).message).toContain('Used 1200,')
    reservation.cancel()
    held(limiter.admit(key, null, tokens(1_000), at(2)))
  })

  test('never admits a larger request, and says that waiting does not help', () => {
    const limiter = createLimiter()
    held(limiter.admit(key, null, tokens(1), at(0)))
    const error = refused(limiter.admit(key, null, tokens(1_001), at(1)))
    expect(error.message).toStartWith(
      "Request too large for key `ann` on tokens per min (TPM): Limit 1000, Requested 1001. Retrying won't help.",
    )
    expect(error.message).toContain('(4,096 if unset). Lower max_tokens')
    expect(error.type).toBe('tokens')
    expect(error.headers).toMatchObject({ 'x-should-retry': 'false', 'x-ratelimit-remaining-tokens': '999' })
    for (const name of ['retry-after', 'retry-after-ms']) expect(error.headers).not.toHaveProperty(name)
  })
})

describe('a key with 2 concurrent requests', () => {
  const key = limited({ concurrency: 2 })

  test('is refused a third at once, until one has ended', () => {
    const limiter = createLimiter()
    const holds = [0, 1].map((ms) => held(limiter.admit(key, null, tokens(1), at(ms))))
    expect(holds[0]?.headers).toEqual({})
    const error = refused(limiter.admit(key, null, tokens(1), at(2)))
    expect(error.message).toStartWith(
      'Rate limit reached for key `ann` on concurrent requests: Limit 2, Used 2, Requested 1. Please try again in 1s. ',
    )
    expect(error).toMatchObject({ status: 429, type: 'requests', code: 'rate_limit_exceeded' })
    expect(error.headers).toEqual({ 'retry-after': '1', 'retry-after-ms': '1000' })
    // They are in flight, however long they take.
    refused(limiter.admit(key, null, tokens(1), at(3_600_000)))
    for (let i = 0; i < 2; i++) holds[0]?.settle(tokens(1))
    holds[1]?.cancel()
    for (let i = 0; i < 2; i++) held(limiter.admit(key, null, tokens(1), at(3_600_001)))
    refused(limiter.admit(key, null, tokens(1), at(3_600_001)))
  })
})

test.each([
  ['how many at a time', { concurrency: 1, rpm: 1, tpm: 10 }, 'concurrent requests'],
  ['requests', { rpm: 1, tpm: 10 }, '(RPM)'],
  ['tokens', { tpm: 10 }, '(TPM)'],
  ['the budget', {}, 'budget'],
])('of what leaves no room, %s is told', (_, limits, told) => {
  const limiter = createLimiter()
  const key = limited(limits, { budget: budget(1) })
  const all = { tokens: 10, nanoUsd: CENT }
  held(limiter.admit(key, null, all, at(0)))
  expect(refused(limiter.admit(key, null, all, at(1))).message).toContain(told)
})

test('a refused client is told when the limit that refused has room', () => {
  const limiter = createLimiter()
  const key = limited({ rpm: 2, tpm: 100 })
  held(limiter.admit(key, null, tokens(10), at(0)))
  held(limiter.admit(key, null, tokens(90), at(5_000)))
  const waits = (ms: number) => {
    const { type, headers } = refused(limiter.admit(key, null, tokens(50), at(ms)))
    return [type, headers['retry-after-ms']]
  }
  expect([waits(6_000), waits(60_000)]).toEqual([
    ['requests', '54000'],
    ['tokens', '5000'],
  ])
})

test('a response reports both rates, itself included', () => {
  const key = limited({ rpm: 5, tpm: 100, concurrency: 9 })
  const limiter = createLimiter()
  held(limiter.admit(key, null, tokens(10), at(0)))
  const { headers } = held(limiter.admit(key, null, tokens(30), at(10_000)))
  const expected = {
    'x-ratelimit-limit-requests': '5',
    'x-ratelimit-remaining-requests': '3',
    'x-ratelimit-reset-requests': '1m0s',
    'x-ratelimit-limit-tokens': '100',
    'x-ratelimit-remaining-tokens': '60',
    'x-ratelimit-reset-tokens': '1m0s',
  }
  expect(headers).toEqual(expected)
  held(limiter.admit(key, null, tokens(30), at(10_000)))
  expect(headers).toEqual(expected)
})

test('a key without limits gets the same reservation every time', () => {
  const limiter = createLimiter()
  const [one, other] = [limited({}), limited({}, { id: 'k2' })]
  const first = limiter.admit(one, null, tokens(1), at(0))
  const reservation = held(first)
  expect(reservation.raise({ tokens: 1e9, nanoUsd: 1e15 })).toBeNull()
  reservation.settle({ tokens: 1e9, nanoUsd: 1e15 })
  reservation.cancel()
  expect(limiter.admit(other, toTeam(null), tokens(1e9), at(2))).toBe(first)
  expect([Object.isFrozen(reservation), reservation.headers]).toEqual([true, {}])
})

test('only keys that were idle for a minute are forgotten', () => {
  const limiters = new RateLimiters()
  const [idle, busy, recent] = ['idle', 'busy', 'recent'].map((id) => limiters.of(id, 0))
  const slot = busy?.take(1, 0)
  recent?.take(1, 1).leave(null)
  const same = (nowMs: number) => [limiters.of('idle', nowMs) === idle, limiters.of('busy', nowMs) === busy]
  expect([...same(60_000), limiters.of('recent', 60_000) === recent]).toEqual([false, true, true])
  slot?.leave(null)
  expect(same(120_000)).toEqual([false, false])
})

type Step =
  | { do: 'ask'; tokens: number; afterMs: number }
  | { do: 'settle' | 'cancel'; which: number; tokens: number; afterMs: number }

const afterMs = fc.oneof(fc.integer({ min: 0, max: 120 }), fc.integer({ min: 0, max: 61_000 }))
const steps = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.record({ do: fc.constant('ask' as const), tokens: fc.nat(60), afterMs }) },
    fc.record({
      do: fc.constantFrom('settle' as const, 'cancel' as const),
      which: fc.nat(),
      tokens: fc.nat(120),
      afterMs,
    }),
  ),
  { minLength: 10, maxLength: 120 },
) as fc.Arbitrary<Step[]>

test('requests and tokens per minute never exceed the limits, nor does concurrency', () => {
  const [rpm, tpm, concurrency] = [7, 200, 4]
  const key = limited({ rpm: rpm, tpm: tpm, concurrency })
  fc.assert(
    fc.property(steps, (list) => {
      const limiter = createLimiter()
      let nowMs = 0
      const came: {
        atMs: number
        tokens: number
        reservation: Reservation
        isUnderWay: boolean
        isCounted: boolean
      }[] = []
      for (const step of list) {
        nowMs += step.afterMs
        const underWay = came.filter((one) => one.isUnderWay)
        const minute = came.filter((one) => one.isCounted && one.atMs > nowMs - 60_000)
        const used = minute.reduce((sum, one) => sum + one.tokens, 0)
        if (step.do === 'ask') {
          const decision = limiter.admit(key, null, tokens(step.tokens), at(nowMs))
          if (decision instanceof GatewayError) {
            // An entry may stay up to 100 ms longer, so the window must admit only with that margin.
            const near = came.filter((one) => one.isCounted && one.atMs > nowMs - 60_100)
            const nearly = near.reduce((sum, one) => sum + one.tokens, 0)
            expect(underWay.length >= concurrency || near.length >= rpm || nearly + step.tokens > tpm).toBe(true)
            continue
          }
          expect(minute.length).toBeLessThan(rpm)
          expect(underWay.length).toBeLessThan(concurrency)
          expect(used + step.tokens).toBeLessThanOrEqual(tpm)
          came.push({
            atMs: nowMs,
            tokens: step.tokens,
            reservation: decision,
            isUnderWay: true,
            isCounted: true,
          })
          continue
        }
        const one = underWay[step.which % Math.max(1, underWay.length)]
        if (one === undefined) continue
        one.isUnderWay = false
        if (step.do === 'settle') {
          one.tokens = step.tokens
          one.reservation.settle(tokens(step.tokens))
          continue
        }
        one.isCounted = false
        one.reservation.cancel()
      }
    }),
    { numRuns: 300 },
  )
})

test('a client that retries at the stated time passes that limit, and not a ms before', () => {
  const key = limited({ rpm: 5, tpm: 200 })
  const asks = fc.array(fc.record({ tokens: fc.integer({ min: 1, max: 200 }), afterMs }), { minLength: 3 })
  fc.assert(
    fc.property(asks, (list) => {
      const limiter = createLimiter()
      let nowMs = 0
      for (const ask of list) {
        nowMs += ask.afterMs
        const again = (ms: number) => limiter.admit(key, null, tokens(ask.tokens), at(ms))
        let decision = again(nowMs)
        for (const type of ['requests', 'tokens']) {
          if (!(decision instanceof GatewayError) || decision.type !== type) continue
          const waitMs = Number(decision.headers['retry-after-ms'])
          expect(refused(again(nowMs + waitMs - 1)).type).toBe(type)
          nowMs += waitMs
          decision = again(nowMs)
        }
        held(decision)
      }
    }),
  )
})
