/**
 * Rates and concurrency of teams: a request counts for both its key and its team or for neither, and errors name the
 * one without room.
 */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/domain/error.ts'
import type { Limits } from '../../src/domain/limits.ts'
import type { Key, Team } from '../../src/domain/snapshot.ts'
import type { EnteredRequest, Limiter, Reservation } from '../../src/limits/limiter.ts'
import { at, atOnce, budget, CENT, createLimiter, held, limited, refused, tokens, toTeam } from './asking.ts'

const teamOf = (limits: Partial<Limits>, id = 't1') => toTeam(null, id, limits)
const keyOf = (limits: Partial<Limits>, id = 'k1') => limited(limits, { id, name: id })

type Who = [key: Key, team: Team | null, atMs: number]

function entered(limiter: Limiter, ...who: Who): EnteredRequest {
  const entry = limiter.enter('r1', ...who)
  if (entry instanceof GatewayError) throw entry
  return entry
}

/** Headers of the response to one more request of a key without a team, or of one that has only its team. */
const left = (limiter: Limiter, ...who: Who) => {
  const entry = entered(limiter, ...who)
  const error = new GatewayError('overloaded', 'asked only to see what stands beside it')
  void entry.refuse(error, who[2])
  const of = (unit: string) => Number(error.headers[`x-ratelimit-remaining-${unit}`])
  return { requests: of('requests'), tokens: of('tokens') }
}

describe('a team', () => {
  test('has one rate for all of its keys, which all report the same', () => {
    const limiter = createLimiter()
    const team = teamOf({ rpm: 3 })
    for (const id of ['k1', 'k2', 'k3']) held(limiter.admit(keyOf({}, id), team, tokens(1), at(0)))
    const error = refused(limiter.admit(keyOf({}, 'k4'), team, tokens(1), at(10_000)))
    expect(error).toMatchObject({ status: 429, type: 'requests', code: 'rate_limit_exceeded' })
    expect(error.message).toBe(
      'Rate limit reached for team `crew` on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 50s. Send requests more slowly, or ask your administrator for a larger limit.',
    )
    expect(error.headers).toEqual({
      'retry-after': '50',
      'retry-after-ms': '50000',
      'x-ratelimit-limit-requests': '3',
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-reset-requests': '50s',
    })
    held(limiter.admit(keyOf({}, 'k4'), team, tokens(1), at(60_000)))
    // Another team, and a key with the team's name, have separate rates.
    held(limiter.admit(keyOf({}, 'k5'), teamOf({ rpm: 1 }, 't2'), tokens(1), at(10_000)))
    held(limiter.admit(keyOf({ rpm: 1 }, 't1'), null, tokens(1), at(10_000)))
  })

  test('has a number of concurrent requests for its keys, each until it ends or its client disconnects', () => {
    const limiter = createLimiter()
    const team = teamOf({ concurrency: 2 })
    const [first, second] = ['k1', 'k2'].map((id) => held(limiter.admit(keyOf({}, id), team, tokens(1), at(0))))
    const third = () => limiter.admit(keyOf({}, 'k3'), team, tokens(1), at(1))
    expect(refused(third()).message).toContain('for team `crew` on concurrent requests: Limit 2, Used 2, Requested 1.')
    first?.releaseSlot()
    const reservation = held(third())
    first?.settle(tokens(1))
    refused(third())
    for (const one of [second, reservation]) one?.cancel()
    for (let again = 0; again < 2; again++) held(third())
    refused(third())
  })

  test('counts the tokens of its keys, corrected to the actual usage', () => {
    const limiter = createLimiter()
    const team = teamOf({ tpm: 1_000 })
    const first = held(limiter.admit(keyOf({}, 'k1'), team, tokens(600), at(0)))
    expect(first.raise(tokens(800))).toBeNull()
    const error = refused(limiter.admit(keyOf({}, 'k2'), team, tokens(300), at(0)))
    expect(error.message).toContain('for team `crew` on tokens per min (TPM): Limit 1000, Used 800, Requested 300.')
    first.settle(tokens(700))
    expect(held(limiter.admit(keyOf({}, 'k2'), team, tokens(300), at(0))).headers).toEqual({
      'x-ratelimit-limit-tokens': '1000',
      'x-ratelimit-remaining-tokens': '0',
      'x-ratelimit-reset-tokens': '1m0s',
    })
  })
})

describe('a request', () => {
  const key = keyOf({ rpm: 5, tpm: 100, concurrency: 1 })

  test.each<[string, Partial<Limits>, number]>([
    ['requests', { rpm: 1 }, 1],
    ['slots', { concurrency: 1 }, 1],
    ['tokens', { tpm: 50 }, 40],
  ])('for which its team has no %s takes nothing of its key', (_, limits, amount) => {
    const limiter = createLimiter()
    const team = teamOf(limits)
    held(limiter.admit(keyOf({}, 'k2'), team, tokens(amount), at(0)))
    for (let again = 0; again < 3; again++)
      expect(refused(limiter.admit(key, team, tokens(amount), at(0))).message).toContain('team `crew`')
    expect(left(limiter, key, null, 0)).toEqual({ requests: 5, tokens: 100 })
  })

  test.each<[string, Partial<Limits>, number]>([
    ['requests', { rpm: 1 }, 1],
    ['slots', { concurrency: 1 }, 1],
    ['tokens', { tpm: 50 }, 40],
  ])('for which its key has no %s takes nothing of its team', (_, limits, amount) => {
    const limiter = createLimiter()
    const team = teamOf({ rpm: 5, tpm: 100, concurrency: 2 })
    const narrow = keyOf(limits)
    held(limiter.admit(narrow, team, tokens(amount), at(0)))
    for (let again = 0; again < 3; again++)
      expect(refused(limiter.admit(narrow, team, tokens(amount), at(0))).message).toContain('key `k1`')
    expect(left(limiter, keyOf({}, 'k2'), team, 0)).toEqual({ requests: 4, tokens: 100 - amount })
  })

  test("refused by a budget counts in no rate either, whether it is the key's or the team's budget", () => {
    const limiter = createLimiter()
    const rates = { rpm: 5, tpm: 100, concurrency: 1 }
    for (const [mine, ours] of [
      [budget(1), null],
      [null, budget(1)],
    ] as const) {
      const team = toTeam(ours, 't1', rates)
      const dear = { tokens: 10, nanoUsd: 2 * CENT }
      const owner = limited(rates, { budget: mine })
      expect(refused(limiter.admit(owner, team, dear, at(0)))).toMatchObject({ code: 'insufficient_quota' })
      expect(left(limiter, keyOf({}, 'k2'), team, 0)).toEqual({ requests: 5, tokens: 100 })
      expect(left(limiter, owner, null, 0)).toEqual({ requests: 5, tokens: 100 })
    }
  })

  test('counts for its team, too, before its body is read, and is returned if nothing was read', () => {
    const limiter = createLimiter()
    const team = teamOf({ rpm: 2, concurrency: 1 })
    const entry = entered(limiter, key, team, 0)
    expect(limiter.enter('r1', keyOf({}, 'k2'), team, 0)).toMatchObject({ kind: 'request_limit' })
    void entry.refuse(new GatewayError('invalid_request', 'no JSON'), 0)
    entered(limiter, keyOf({}, 'k2'), team, 0).cancel()
    expect(left(limiter, keyOf({}, 'k2'), team, 0).requests).toBe(1)
  })

  test('stays with the team that its key had when it arrived', () => {
    const limiter = createLimiter()
    const [before, after] = ['t1', 't2'].map((id) => teamOf({ rpm: 2, tpm: 100 }, id))
    const entry = entered(limiter, key, before ?? null, 0)
    held(atOnce(entry.admit(tokens(40), at(0)))).settle(tokens(60))
    expect(left(limiter, keyOf({}, 'k2'), before ?? null, 0)).toEqual({ requests: 1, tokens: 40 })
    expect(left(limiter, key, after ?? null, 0)).toEqual({ requests: 2, tokens: 40 })
  })
})

describe('if key and team both have rates', () => {
  test('a response reports, for requests and for tokens, the one with less left', () => {
    const limiter = createLimiter()
    const team = teamOf({ rpm: 9, tpm: 50 })
    const key = keyOf({ rpm: 3, tpm: 100 })
    expect(held(limiter.admit(key, team, tokens(10), at(0))).headers).toEqual({
      'x-ratelimit-limit-requests': '3',
      'x-ratelimit-remaining-requests': '2',
      'x-ratelimit-reset-requests': '1m0s',
      'x-ratelimit-limit-tokens': '50',
      'x-ratelimit-remaining-tokens': '40',
      'x-ratelimit-reset-tokens': '1m0s',
    })
    for (let other = 0; other < 7; other++) held(limiter.admit(keyOf({}, 'k2'), team, tokens(1), at(0)))
    expect(held(limiter.admit(key, team, tokens(1), at(0))).headers).toMatchObject({
      'x-ratelimit-limit-requests': '9',
      'x-ratelimit-remaining-requests': '0',
    })
  })

  test("the refusal with the longer wait is reported, and one that waiting doesn't help first", () => {
    const limiter = createLimiter()
    const [key, team] = [keyOf({ rpm: 1 }), teamOf({ rpm: 2 })]
    held(limiter.admit(keyOf({}, 'k2'), team, tokens(1), at(0)))
    held(limiter.admit(key, team, tokens(1), at(20_000)))
    // The team has room again at 60 s, the key at 80 s.
    const error = refused(limiter.admit(key, team, tokens(1), at(30_000)))
    expect([error.message.includes('key `k1`'), error.headers['retry-after']]).toEqual([true, '50'])

    const small = [keyOf({ tpm: 100 }, 'k3'), teamOf({ tpm: 50 }, 't3')] as const
    held(limiter.admit(...small, tokens(50), at(30_000)))
    expect(refused(limiter.admit(...small, tokens(60), at(30_000))).message).toStartWith(
      "Request too large for team `crew` on tokens per min (TPM): Limit 50, Requested 60. Retrying won't help.",
    )
  })
})

test("the last minute before the process began counts for each request's team", () => {
  const limiter = createLimiter()
  const past = { upstream: null, tokens: 10, agoMs: 30_000 }
  limiter.replay(
    [
      { ...past, keyId: 'k1', teamId: 't1' },
      { ...past, keyId: 'k1', teamId: null },
      { ...past, keyId: 'k2', teamId: 't1' },
    ],
    0,
  )
  const team = teamOf({ rpm: 5, tpm: 100 })
  expect(left(limiter, keyOf({}), team, 0)).toEqual({ requests: 3, tokens: 80 })
  expect(left(limiter, keyOf({}), team, 30_000)).toEqual({ requests: 5, tokens: 100 })
})

test('whatever requests keys of two teams send, and however they end, no key or team exceeds its rates or concurrency', () => {
  const rates = (rpm: number, tpm: number, concurrency: number): Limits => ({
    ...{ rpm, tpm, concurrency },
  })
  const keys = [0, 1, 2, 3].map((each) => keyOf(rates(4 + each, 90, 3), `k${each}`))
  const teams = [teamOf(rates(7, 150, 4), 't0'), teamOf(rates(9, 120, 5), 't1')]
  const step = fc.record({
    do: fc.constantFrom('ask', 'ask', 'ask', 'settle', 'cancel'),
    key: fc.nat(3),
    amount: fc.nat(60),
    which: fc.nat(),
    afterMs: fc.oneof(fc.nat(120), fc.nat(31_000)),
  })
  fc.assert(
    fc.property(fc.array(step, { minLength: 10, maxLength: 100 }), (steps) => {
      const limiter = createLimiter()
      const came: { atMs: number; tokens: number; who: string[]; isOpen: boolean; reservation: Reservation }[] = []
      let nowMs = 0
      for (const { do: what, key: number, amount, which, afterMs } of steps) {
        nowMs += afterMs
        if (what === 'ask') {
          const [key, team] = [keys[number], teams[number % 2]]
          if (!key || !team) throw new Error('no such key')
          const decision = limiter.admit(key, team, tokens(amount), at(nowMs))
          // An entry may stay up to 100 ms longer than its content.
          const room = (sinceMs: number) =>
            [key, team].every(({ id, limits }) => {
              const own = came.filter(({ who }) => who.includes(id))
              const minute = own.filter(({ atMs }) => atMs > sinceMs)
              const used = minute.reduce((sum, one) => sum + one.tokens, 0)
              return (
                own.filter(({ isOpen }) => isOpen).length < (limits.concurrency ?? 0) &&
                minute.length < (limits.rpm ?? 0) &&
                used + amount <= (limits.tpm ?? 0)
              )
            })
          if (decision instanceof GatewayError) expect(room(nowMs - 60_100)).toBe(false)
          else {
            expect(room(nowMs - 60_000)).toBe(true)
            came.push({ atMs: nowMs, tokens: amount, who: [key.id, team.id], isOpen: true, reservation: decision })
          }
          continue
        }
        const open = came.filter(({ isOpen }) => isOpen)
        const one = open[which % Math.max(1, open.length)]
        if (one === undefined) continue
        one.isOpen = false
        if (what === 'settle') {
          one.tokens = amount
          one.reservation.settle(tokens(amount))
        } else {
          came.splice(came.indexOf(one), 1)
          one.reservation.cancel()
        }
      }
    }),
    { numRuns: 200 },
  )
})
