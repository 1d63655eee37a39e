/** Budgets of keys and teams: reserved together, settled in the period in which a request was admitted. */
import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/domain/error.ts'
import type { Budget, Period } from '../../src/domain/limits.ts'
import type { Key, Spender, Team } from '../../src/domain/snapshot.ts'
import type { BudgetWarning } from '../../src/limits/budget.ts'
import type { Reservation } from '../../src/limits/limiter.ts'
import {
  type AskedLimiter,
  at,
  atOnce,
  budget,
  CENT,
  cents,
  createLimiter,
  DAY,
  HOUR,
  held,
  limited,
  NOON,
  refused,
  standing,
  toTeam,
} from './asking.ts'

const keyOf = (of: Budget | null, more: Partial<Key> = {}) => limited({}, { budget: of, ...more })
const renew = (limiter: AskedLimiter, keys: Key[], teams: Team[], spent = 0, now = at(0)) => {
  const asked: [Spender, number][] = []
  limiter.renew(keys, teams, (spender, { fromMs }) => asked.push([spender, fromMs]) && spent, now)
  return asked
}

describe('a refusal', () => {
  const sayings: [string, number, number, number, Period, string][] = [
    [
      'by requests under way',
      0,
      7,
      4,
      'month',
      'Budget exceeded for key `ann`: $0.1 per month limit, $0 spent, $0.07 reserved by running requests; this request may cost up to $0.04. It resets at 2026-12-01T00:00:00Z. Wait for running requests to finish, lower max_tokens, use a cheaper model, or ask your administrator for a larger budget.',
    ],
    [
      'by what the request asks',
      7,
      1,
      4,
      'week',
      '$0.1 per week limit, $0.07 spent, $0.01 reserved by running requests; this request may cost up to $0.04. It resets at 2026-11-23T00:00:00Z. Lower max_tokens, use a cheaper model, wait for the reset, or ask your administrator for a larger budget.',
    ],
    [
      'by what is spent',
      12,
      0,
      4,
      'day',
      'limit, $0.12 spent, $0 reserved by running requests; this request may cost up to $0.04. It resets at 2026-11-19T00:00:00Z. Wait for the reset, or ask your administrator for a larger budget.',
    ],
    [
      'by what is spent for good',
      10,
      0,
      4,
      'total',
      '$0.1 total limit, $0.1 spent, $0 reserved by running requests; this request may cost up to $0.04. It never resets. Ask your administrator for a larger budget.',
    ],
  ]
  test.each(sayings)('%s says so, and what to do', (_, spent, reserved, asked, period, words) => {
    const limiter = createLimiter()
    const key = keyOf(budget(10, period))
    held(limiter.admit(key, null, cents(0), at(0))).settle(cents(spent))
    if (reserved > 0) held(limiter.admit(key, null, cents(reserved), at(2)))
    const error = refused(limiter.admit(key, null, cents(asked), at(3)))
    expect(error.message).toContain(words)
    expect(error).toMatchObject({ status: 429, type: 'insufficient_quota', code: 'insufficient_quota', param: null })
    expect(error.headers).toEqual({ 'x-should-retry': 'false' })
  })

  test('names the team if it is the team’s budget, and reports the key’s rates as they are without the request', () => {
    const limiter = createLimiter()
    const key = limited({ rpm: 5 }, { budget: budget(50) })
    const error = refused(limiter.admit(key, toTeam(budget(1)), cents(2), at(0)))
    expect(error.message).toStartWith('Budget exceeded for team `crew`: $0.01 per day limit')
    expect(error.message).toEndWith('or ask your administrator for a larger budget.')
    expect(error.headers).toMatchObject({ 'x-ratelimit-remaining-requests': '5', 'x-ratelimit-reset-requests': '0s' })
  })
})

test('200 concurrent requests on a budget of $0.10 reserve no more than that', () => {
  const limiter = createLimiter()
  const key = keyOf(budget(10))
  const decisions = Array.from({ length: 200 }, () => limiter.admit(key, null, { tokens: 1, nanoUsd: 700_000 }, at(0)))
  const holds = decisions.flatMap((decision) => (decision instanceof GatewayError ? [] : [decision]))
  expect(holds.length).toBe(142)
  expect(standing(limiter, key, null, at(0))).toEqual({ kind: 'key', spent: 0, reserved: 142 * 700_000 })
  for (const reservation of holds) reservation.settle({ tokens: 1, nanoUsd: 200_000 })
  expect(standing(limiter, key, null, at(1))).toEqual({ kind: 'key', spent: 142 * 200_000, reserved: 0 })
})

describe('a reservation', () => {
  const key = keyOf(budget(10))

  test.each([
    ['settles once', (reservation: Reservation) => reservation.settle(cents(3)), 3],
    ['gives all of it back once', (reservation: Reservation) => reservation.cancel(), 0],
  ])('%s, whatever is said to it later', (_, end, spent) => {
    const limiter = createLimiter()
    const reservation = held(limiter.admit(key, null, cents(8), at(0)))
    end(reservation)
    reservation.settle(cents(9))
    reservation.cancel()
    expect(reservation.raise(cents(9))).toBeNull()
    expect(standing(limiter, key, null, at(3))).toMatchObject({ spent: spent * CENT, reserved: 0 })
  })

  test('smaller than its cost is still charged in full; until the reset only the remaining amount is admitted', () => {
    const limiter = createLimiter()
    held(limiter.admit(key, null, cents(1), at(0))).settle(cents(11))
    refused(limiter.admit(key, null, { tokens: 1, nanoUsd: 1 }, at(2)))
    held(limiter.admit(key, null, cents(0), at(2)))
    held(limiter.admit(key, null, cents(10), at(2, NOON + DAY)))
  })

  test('is raised to the cost of a further call, never lowered, and not raised at all if the budget has no room', () => {
    const limiter = createLimiter()
    const limits = limited({ tpm: 100 }, { budget: budget(10) })
    const reservation = held(limiter.admit(limits, null, cents(2), at(0)))
    held(limiter.admit(limits, null, cents(3), at(0)))
    for (const more of [6, 4]) expect(reservation.raise(cents(more))).toBeNull()
    expect(standing(limiter, limits, null, at(0)).reserved).toBe(9 * CENT)
    const error = atOnce(reservation.raise({ tokens: 90, nanoUsd: 8 * CENT }))
    expect(error?.code).toBe('insufficient_quota')
    expect(error?.message).toContain('may cost up to $0.02')
    expect(standing(limiter, limits, null, at(0)).reserved).toBe(9 * CENT)
    expect(held(limiter.admit(limits, null, { tokens: 1, nanoUsd: 0 }, at(0))).headers).toMatchObject({
      'x-ratelimit-remaining-tokens': '97',
    })
    reservation.settle(cents(7))
    expect(standing(limiter, limits, null, at(1))).toMatchObject({ spent: 7 * CENT, reserved: 3 * CENT })
  })
})

test('a request that is refused leaves no trace on rates, key or team', () => {
  const limiter = createLimiter()
  const key = limited({ rpm: 2, tpm: 10, concurrency: 1 }, { budget: budget(10) })
  const team = toTeam(budget(5))
  for (let i = 0; i < 5; i++) refused(limiter.admit(key, team, cents(6), at(i)))
  expect(standing(limiter, { ...key, budget: null }, team, at(5))).toEqual({ kind: 'team', spent: 0, reserved: 0 })
  const { headers } = held(limiter.admit(key, null, cents(10), at(5)))
  expect(headers).toMatchObject({ 'x-ratelimit-remaining-requests': '1', 'x-ratelimit-remaining-tokens': '9' })
})

describe('a period', () => {
  test('that has ended takes its spend and its reservations along; late settlements stay in it', () => {
    const limiter = createLimiter()
    const key = keyOf(budget(10))
    const late = held(limiter.admit(key, null, cents(9), at(0)))
    const tomorrow = at(1, NOON + 12 * HOUR)
    held(limiter.admit(key, null, cents(4), tomorrow))
    expect(atOnce(late.raise(cents(11)))?.message).toContain('It resets at 2026-11-19T00:00:00Z.')
    late.settle(cents(9))
    expect(standing(limiter, key, null, tomorrow)).toMatchObject({ spent: 0, reserved: 4 * CENT })
  })

  test('is the same after the clock stepped back within it', () => {
    const limiter = createLimiter()
    const key = keyOf(budget(10))
    held(limiter.admit(key, null, cents(4), at(0))).settle(cents(4))
    const reservation = held(limiter.admit(key, null, cents(3), at(2)))
    expect(standing(limiter, key, null, at(3, NOON - HOUR))).toMatchObject({ spent: 4 * CENT, reserved: 3 * CENT })
    reservation.settle(cents(2))
    expect(standing(limiter, key, null, at(5, NOON))).toMatchObject({ spent: 6 * CENT, reserved: 0 })
  })

  test('that a clock has reached stays when the clock is set back, and ends as planned', () => {
    const limiter = createLimiter()
    const key = keyOf(budget(10))
    held(limiter.admit(key, null, cents(9), at(0))).settle(cents(9))
    for (const back of [1, 2, 7]) {
      const error = refused(limiter.admit(key, null, cents(2), at(back, NOON - back * DAY)))
      expect(error.message).toContain('It resets at 2026-11-19T00:00:00Z.')
    }
    // Requests meanwhile are charged to it.
    held(limiter.admit(key, null, cents(1), at(8, NOON - 2 * DAY))).settle(cents(1))
    refused(limiter.admit(key, null, cents(1), at(9)))
    held(limiter.admit(key, null, cents(10), at(10, NOON + DAY)))
  })

  test('that the ledger has reached is effective after a start with a clock that was set back meanwhile', () => {
    const limiter = createLimiter({ latestMs: NOON })
    const key = keyOf(budget(10))
    const asked: object[] = []
    const back = NOON - 2 * DAY
    limiter.renew([key], [], (_, span) => asked.push(span) && 9 * CENT, at(0, back))
    // Also spend recorded by the clock that was set back.
    expect(asked).toMatchObject([{ fromMs: Date.UTC(2026, 10, 16), untilMs: Date.UTC(2026, 10, 19) }])
    refused(limiter.admit(key, null, cents(2), at(1, back + DAY)))
    held(limiter.admit(key, null, cents(10), at(2, NOON + DAY)))
  })

  test('that a clock was ahead of by more than a week is not effective once the clock is right again', () => {
    const limiter = createLimiter()
    const key = keyOf(budget(10))
    renew(limiter, [key], [], 3 * CENT)
    held(limiter.admit(key, null, cents(10), at(1, NOON + 8 * DAY))).settle(cents(10))
    held(limiter.admit(key, null, cents(7), at(2)))
  })

  test.each([
    ['nine days', 9 * DAY],
    ['a year', 365 * DAY],
  ])('that a clock left for %s and came back to has what was spent in it, and resets on time', (_, ahead) => {
    const limiter = createLimiter()
    const key = keyOf(budget(10))
    held(limiter.admit(key, null, cents(7), at(0))).settle(cents(7))
    const early = held(limiter.admit(key, null, cents(1), at(1)))
    const away = held(limiter.admit(key, null, cents(9), at(2, NOON + ahead)))
    early.settle(cents(2))
    const error = refused(limiter.admit(key, null, cents(2), at(3)))
    expect(error.message).toContain('$0.09 spent, $0 reserved')
    expect(error.message).toContain('It resets at 2026-11-19T00:00:00Z.')
    // Settles in the period of its admission.
    away.settle(cents(5))
    expect(standing(limiter, key, null, at(4))).toMatchObject({ spent: 9 * CENT, reserved: 0 })
    expect(standing(limiter, key, null, at(5, NOON + ahead))).toMatchObject({ spent: 5 * CENT, reserved: 0 })
    held(limiter.admit(key, null, cents(10), at(6, NOON + ahead + DAY)))
  })

  test('that the clock was set back to keeps all amounts, until it ends; nothing is granted twice', () => {
    const limiter = createLimiter()
    const key = keyOf(budget(10))
    // Started with a clock that was a year ahead.
    renew(limiter, [key], [], 2 * CENT)
    held(limiter.admit(key, null, cents(4), at(0))).settle(cents(4))
    const reservation = held(limiter.admit(key, null, cents(3), at(1)))
    const back = NOON - 365 * DAY
    const error = refused(limiter.admit(key, null, cents(2), at(2, back)))
    expect(error.message).toContain('$0.09 spent')
    expect(error.message).toContain('It resets at 2025-11-19T00:00:00Z.')
    reservation.settle(cents(1))
    expect(standing(limiter, key, null, at(3))).toMatchObject({ spent: 7 * CENT, reserved: 0 })
    expect(standing(limiter, key, null, at(4, back))).toMatchObject({ spent: 9 * CENT, reserved: 0 })
    expect(renew(limiter, [key], [], 99 * CENT, at(5, back + DAY))).toEqual([])
    expect(standing(limiter, key, null, at(6, back + DAY))).toMatchObject({ spent: 0, reserved: 0 })
  })

  test('in total never ends', () => {
    const limiter = createLimiter()
    const key = keyOf(budget(10, 'total'))
    held(limiter.admit(key, null, cents(9), at(0))).settle(cents(9))
    refused(limiter.admit(key, null, cents(2), at(2, NOON + 3_650 * DAY)))
  })
})

describe('a new configuration', () => {
  test('reads once the spend of each budget since its period began, and uses that', () => {
    const limiter = createLimiter()
    const [key, rotated] = [keyOf(budget(10, 'week')), keyOf(budget(10, 'week'))]
    const team = toTeam(budget(20, 'total'))
    const free = keyOf(null, { id: 'k2' })
    expect(renew(limiter, [key, rotated, free], [team, toTeam(null, 't2')], 7 * CENT)).toEqual([
      [{ kind: 'key', id: 'k1' }, Date.UTC(2026, 10, 16)],
      [{ kind: 'team', id: 't1' }, 0],
    ])
    expect(standing(limiter, key, team, at(1))).toEqual({ kind: 'key', spent: 7 * CENT, reserved: 0 })
    expect(standing(limiter, free, team, at(1))).toEqual({ kind: 'team', spent: 7 * CENT, reserved: 0 })
    expect(renew(limiter, [key, free], [team], 99 * CENT)).toEqual([])
    expect(standing(limiter, key, team, at(1)).spent).toBe(7 * CENT)
  })

  test('with another amount keeps spent and reserved amounts', () => {
    const limiter = createLimiter()
    const before = keyOf(budget(10))
    renew(limiter, [before], [])
    held(limiter.admit(before, null, cents(4), at(0))).settle(cents(4))
    const reservation = held(limiter.admit(before, null, cents(5), at(2)))
    const after = keyOf(budget(12))
    expect(renew(limiter, [after], [], 99 * CENT)).toEqual([])
    expect(standing(limiter, after, null, at(3))).toMatchObject({ spent: 4 * CENT, reserved: 5 * CENT })
    expect(reservation.raise(cents(8))).toBeNull()
    refused(limiter.admit(after, null, cents(1), at(4)))
  })

  test('also applies to a key that was authenticated before', () => {
    const limiter = createLimiter()
    renew(limiter, [keyOf(budget(10))], [])
    refused(limiter.admit(keyOf(budget(12)), null, cents(11), at(0)))
    held(limiter.admit(keyOf(budget(8)), null, cents(10), at(0)))
  })

  test('with another period reads the spend again; earlier requests settle in the period of their admission', () => {
    const limiter = createLimiter()
    const [daily, monthly] = [keyOf(budget(10)), keyOf(budget(50, 'month'))]
    renew(limiter, [daily], [])
    const reservation = held(limiter.admit(daily, null, cents(5), at(0)))
    expect(renew(limiter, [monthly], [], 30 * CENT)).toEqual([[{ kind: 'key', id: 'k1' }, Date.UTC(2026, 10)]])
    reservation.settle(cents(5))
    expect(standing(limiter, monthly, null, at(2))).toMatchObject({ spent: 30 * CENT, reserved: 0 })
    // A request that was authenticated before the change doesn't restore the old budget.
    expect(standing(limiter, daily, null, at(2)).spent).toBe(30 * CENT)
    held(limiter.admit(daily, null, cents(20), at(2)))
    refused(limiter.admit(daily, null, cents(1), at(2)))
  })

  test('without a budget forgets it; later settlements neither fail nor restore it', () => {
    const limiter = createLimiter()
    const key = keyOf(budget(10))
    renew(limiter, [key], [])
    const reservation = held(limiter.admit(key, null, cents(9), at(0)))
    renew(limiter, [], [])
    reservation.settle(cents(9))
    expect(renew(limiter, [key], [], 2 * CENT).length).toBe(1)
    expect(standing(limiter, key, null, at(2))).toMatchObject({ spent: 2 * CENT, reserved: 0 })
  })

  test("is not applied if the spend can't be read, not even partly", () => {
    const limiter = createLimiter()
    const [key, team] = [keyOf(budget(10)), toTeam(budget(10))]
    renew(limiter, [key], [team], 3 * CENT)
    const fails = (spender: Spender) => {
      if (spender.kind === 'team') throw new Error('the disk is gone')
      return 0
    }
    const changed = keyOf(budget(10, 'month'))
    expect(() => limiter.renew([changed], [toTeam(budget(10), 't2')], fails, at(1))).toThrow('the disk is gone')
    expect(standing(limiter, key, null, at(2)).spent).toBe(3 * CENT)
    expect(standing(limiter, keyOf(null, { id: 'k2' }), team, at(2)).spent).toBe(3 * CENT)
    expect(renew(limiter, [changed], [team], 4 * CENT).length).toBe(1)
  })

  test('that comes after the first request still reads the spend, and starts from the result', () => {
    const limiter = createLimiter()
    const key = keyOf(budget(10))
    const early = held(limiter.admit(key, null, cents(1), at(0)))
    expect(renew(limiter, [key], [], 4 * CENT).length).toBe(1)
    early.settle(cents(1))
    expect(standing(limiter, key, null, at(2))).toMatchObject({ spent: 4 * CENT, reserved: 0 })
  })
})

describe('a warning', () => {
  const watch = () => {
    const warnings: BudgetWarning[] = []
    const limiter = createLimiter({ onWarning: (warning) => warnings.push(warning) })
    const spend = (key: Key, team: Team | null, amount: number, now = at(0)) =>
      held(limiter.admit(key, team, cents(0), now)).settle(cents(amount))
    const told = () =>
      warnings.splice(0).map(({ spender, percent, spentNanoUsd }) => [spender.kind, percent, spentNanoUsd / CENT])
    return { limiter, warnings, spend, told }
  }

  test('comes once at 80 % and once at 100 % of spend, in every period', () => {
    const { spend, told, warnings, limiter } = watch()
    const key = keyOf(budget(10))
    spend(key, null, 7)
    held(limiter.admit(key, null, cents(3), at(0))).cancel()
    expect(told()).toEqual([])
    spend(key, null, 1)
    expect(warnings).toEqual([
      {
        spender: { kind: 'key', id: 'k1' },
        name: 'ann',
        spentNanoUsd: 8 * CENT,
        budget: budget(10),
        percent: 80,
      },
    ])
    expect(told()).toEqual([['key', 80, 8]])
    spend(key, null, 1)
    expect(told()).toEqual([])
    const last = held(limiter.admit(key, null, cents(0), at(0)))
    spend(key, null, 2)
    last.settle(cents(1))
    expect(told()).toEqual([['key', 100, 11]])
    spend(key, null, 9, at(0, NOON + DAY))
    expect(told()).toEqual([['key', 80, 9]])
  })

  test('comes for key and team separately, and for the higher threshold if both are passed at once', () => {
    const { spend, told } = watch()
    spend(keyOf(budget(10)), toTeam(budget(20)), 16)
    expect(told()).toEqual([
      ['key', 100, 16],
      ['team', 80, 16],
    ])
  })

  test('comes for earlier spend, and again only for another amount', () => {
    const { limiter, told, spend } = watch()
    renew(limiter, [keyOf(budget(10))], [], 9 * CENT)
    renew(limiter, [keyOf(budget(10))], [])
    expect(told()).toEqual([['key', 80, 9]])
    renew(limiter, [keyOf(budget(20))], [])
    spend(keyOf(budget(20)), null, 6)
    expect(told()).toEqual([])
    spend(keyOf(budget(20)), null, 1)
    expect(told()).toEqual([['key', 80, 16]])
    renew(limiter, [keyOf(budget(15))], [])
    expect(told()).toEqual([['key', 100, 16]])
  })

  test('does not come for a period that has ended, or without spend', () => {
    const { limiter, told } = watch()
    const key = keyOf(budget(10))
    const late = held(limiter.admit(key, null, cents(9), at(0)))
    held(limiter.admit(key, null, cents(1), at(0, NOON + DAY)))
    late.settle(cents(9))
    renew(limiter, [keyOf(budget(0), { id: 'k2' })], [])
    expect(told()).toEqual([])
    const spent = keyOf(budget(10), { id: 'k3' })
    renew(limiter, [spent], [], 0, at(0, NOON + DAY))
    held(limiter.admit(spent, null, cents(7), at(0, NOON + DAY))).settle(cents(7))
    renew(limiter, [keyOf(budget(5), { id: 'k3' })], [], 0, at(0, NOON + 2 * DAY))
    expect(told()).toEqual([])
  })

  test('is exact to the nano-dollar in a budget of millions', () => {
    const { limiter, told } = watch()
    const huge = keyOf({ nanoUsd: Number.MAX_SAFE_INTEGER, period: 'total' })
    const eighty = Number((BigInt(Number.MAX_SAFE_INTEGER) * 80n + 99n) / 100n)
    const spend = (nanoUsd: number) =>
      held(limiter.admit(huge, null, { tokens: 1, nanoUsd: 0 }, at(0))).settle({ tokens: 1, nanoUsd })
    spend(eighty - 1)
    expect(told()).toEqual([])
    spend(1)
    expect(told().length).toBe(1)
  })
})

test('two servers during a restart together admit no more than the budget', async () => {
  const key = keyOf(budget(10))
  const earlier = createLimiter()
  const running = held(earlier.admit(key, null, cents(2), at(0), 'running'))
  const later = createLimiter()
  later.renew(
    [key],
    [],
    (_, __, inFlight) => {
      inFlight.set('running', cents(2).nanoUsd)
      return cents(2).nanoUsd
    },
    at(1),
  )
  earlier.askSuccessor(async (raise) => later.raiseHeld(raise))
  held(later.admit(key, null, cents(5), at(2)))
  expect(await running.raise(cents(4))).toBeNull()
  refused(later.admit(key, null, cents(2), at(3)))
  const ended = await running.raise({ ...cents(6), isMore: true })
  expect(ended?.message).toContain('$0.04 spent, $0.05 reserved')
  later.ended({ id: 'running', keyId: key.id, teamId: null, costNanoUsd: cents(1).nanoUsd })
  held(later.admit(key, null, cents(4), at(4)))
  refused(later.admit(key, null, cents(1), at(5)))
})
