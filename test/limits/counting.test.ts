/**
 * A budget without room for the worst case: which prompts are counted, and that nothing is admitted twice meanwhile.
 */
import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/domain/error.ts'
import type { Key, Team } from '../../src/domain/snapshot.ts'
import type { Cost } from '../../src/limits/budget.ts'
import type { Ask, EnteredRequest, Limiter, Reservation } from '../../src/limits/limiter.ts'
import { at, budget, CENT, cents, createLimiter, limited, standing, toTeam } from './asking.ts'

const keyOf = (id = 'k1', of = budget(10)) => limited({}, { budget: of, id })

/** Counts that the test completes, each once. */
function createCounts() {
  const waiting: (() => void)[] = []
  return {
    /** Number of counts that were begun. */
    begun: 0,
    /**
     * A request for so many cents in the worst case; its count gives `likely`, and `most` as the maximum. Null if it
     * can't be counted.
     */
    ask(worst: number, found: [likely: number, most: number, reserved?: number] | null, least = 0): Ask {
      const [likely, most, reserved = 0] = found ?? [0, 0]
      const cost: Cost | null = found && {
        likelyNanoUsd: likely * CENT,
        mostNanoUsd: most * CENT,
        reservedNanoUsd: reserved * CENT,
      }
      const count = () => {
        this.begun++
        const { promise, resolve } = Promise.withResolvers<void>()
        waiting.push(resolve)
        return promise.then(() => cost)
      }
      return { ...cents(worst), counting: { leastNanoUsd: () => least * CENT, count } }
    },
    /** Completes the first count. */
    endOne: () => waiting.shift()?.(),
    /** Completes all counts, and those that begin as a result. */
    async end() {
      while (waiting.length > 0) {
        for (const resolve of waiting.splice(0)) resolve()
        await Bun.sleep(0)
      }
    },
  }
}

const enter = (limiter: Limiter, key: Key, team: Team | null = null): EnteredRequest => {
  const entry = limiter.enter('r1', key, team, 0)
  if (entry instanceof GatewayError) throw entry
  return entry
}

/** Whether each request was admitted, once all awaited counts are complete. */
async function decide(counts: ReturnType<typeof createCounts>, decided: ReturnType<EnteredRequest['admit']>[]) {
  await counts.end()
  return Promise.all(decided.map(async (each) => !((await each) instanceof GatewayError)))
}

describe('a request', () => {
  test('is not counted if its worst case fits next to the worst cases of all requests in flight', () => {
    const [limiter, counts, key] = [createLimiter(), createCounts(), keyOf()]
    for (const worst of [4, 6])
      expect(enter(limiter, key).admit(counts.ask(worst, [1, 2]), at(0))).not.toBeInstanceOf(Promise)
    expect(counts.begun).toBe(0)
    expect(standing(limiter, key, null, at(0)).reserved).toBe(10 * CENT)
  })

  test('that does not fit is counted, then admitted by the count, with its maximum cost reserved', async () => {
    const [limiter, counts, key] = [createLimiter(), createCounts(), keyOf()]
    expect(await decide(counts, [enter(limiter, key).admit(counts.ask(12, [3, 5]), at(0))])).toEqual([true])
    expect(standing(limiter, key, null, at(0)).reserved).toBe(5 * CENT)
  })

  test('whose record has more than its count reserves that', async () => {
    const [limiter, counts, key] = [createLimiter(), createCounts(), keyOf()]
    void enter(limiter, key).admit(counts.ask(8, [1, 2, 3]), at(0))
    // The first one isn't recorded yet; its record will have its count.
    expect(await decide(counts, [enter(limiter, key).admit(counts.ask(8, [4, 6, 7]), at(0))])).toEqual([true])
    expect(standing(limiter, key, null, at(0)).reserved).toBe(9 * CENT)
  })

  test('that still does not fit causes all requests in flight to be counted, including those of its team’s other keys', async () => {
    const [limiter, counts] = [createLimiter(), createCounts()]
    const team = toTeam(budget(10))
    const [ann, bob] = [keyOf('k1', budget(50)), keyOf('k2', budget(50))]
    for (const key of [ann, bob]) void enter(limiter, key, team).admit(counts.ask(5, [1, 2]), at(0))
    expect(await decide(counts, [enter(limiter, ann, team).admit(counts.ask(8, [4, 6]), at(0))])).toEqual([true])
    expect(counts.begun).toBe(3)
    expect(standing(limiter, limited({}, { id: 'k3' }), team, at(0)).reserved).toBe(10 * CENT)
  })

  test('is refused by the worst case if nothing can be counted, and by its count if that is too much', async () => {
    const [limiter, counts, key] = [createLimiter(), createCounts(), keyOf()]
    for (const found of [null, [11, 11]] as const) {
      const decided = enter(limiter, key).admit(counts.ask(12, found && [...found]), at(0))
      await counts.end()
      const error = await decided
      expect(error).toMatchObject({ code: 'insufficient_quota' })
      expect((error as GatewayError).message).toContain(`may cost up to $${found ? 0.11 : 0.12}`)
    }
    expect(standing(limiter, key, null, at(0)).reserved).toBe(0)
  })

  test('is refused without a count if not even the minimum fits next to the spend', () => {
    const [limiter, counts, key] = [createLimiter(), createCounts(), keyOf()]
    const spent = enter(limiter, key).admit(cents(8), at(0)) as Reservation
    spent.settle(cents(8))
    expect(enter(limiter, key).admit(counts.ask(9, [1, 1], 3), at(0))).toBeInstanceOf(GatewayError)
    expect(counts.begun).toBe(0)
  })
})

describe('during a count', () => {
  test('nothing is reserved, and amounts that others reserved meanwhile count: it is admitted once', async () => {
    const [limiter, counts, key] = [createLimiter(), createCounts(), keyOf()]
    const both = [0, 1].map(() => enter(limiter, key).admit(counts.ask(12, [6, 6]), at(0)))
    expect(standing(limiter, key, null, at(0)).reserved).toBe(0)
    expect((await decide(counts, both)).filter(Boolean)).toHaveLength(1)
    expect(standing(limiter, key, null, at(0)).reserved).toBe(6 * CENT)
  })

  test('only the last request is admitted below its maximum cost: a burst ends within one call of the budget', async () => {
    const [limiter, counts, key] = [createLimiter(), createCounts(), keyOf()]
    const crowd = Array.from({ length: 40 }, () => enter(limiter, key).admit(counts.ask(4, [1, 4]), at(0)))
    // Two by the worst case, and one more.
    expect((await decide(counts, crowd)).filter(Boolean)).toHaveLength(3)
  })

  test('a request that ends is charged its cost, whatever its count gives then', async () => {
    const [limiter, counts, key] = [createLimiter(), createCounts(), keyOf()]
    const first = enter(limiter, key).admit(counts.ask(9, [2, 3]), at(0)) as Reservation
    const second = enter(limiter, key).admit(counts.ask(8, [2, 3]), at(0))
    first.settle(cents(1))
    expect(await decide(counts, [second])).toEqual([true])
    expect(standing(limiter, key, null, at(0))).toMatchObject({ spent: CENT, reserved: 3 * CENT })
  })
})

describe('an additional call', () => {
  test('that does not fit in the worst case is counted like a request', async () => {
    const [limiter, counts, key] = [createLimiter(), createCounts(), keyOf()]
    const reservation = enter(limiter, key).admit(counts.ask(6, [2, 2]), at(0)) as Reservation
    void enter(limiter, key).admit(counts.ask(4, [1, 2]), at(0))
    const raised = reservation.raise(counts.ask(12, [4, 7]))
    await counts.end()
    expect(await raised).toBeNull()
    expect(standing(limiter, key, null, at(0)).reserved).toBe(11 * CENT)
  })

  test.each(['before', 'while'])(
    'that fits into what is held keeps its room, asked for %s that is counted',
    async (when) => {
      const [limiter, counts, key] = [createLimiter(), createCounts(), keyOf()]
      const reservation = enter(limiter, key).admit(counts.ask(6, [2, 2]), at(0)) as Reservation
      const raise = () => expect(reservation.raise(counts.ask(5, [4, 4]))).toBeNull()
      if (when === 'before') raise()
      // The request that it is counted for still finds no room.
      const refused = enter(limiter, key).admit(counts.ask(12, [9, 9]), at(0))
      counts.endOne()
      await Bun.sleep(0)
      expect(counts.begun).toBeGreaterThan(1)
      if (when === 'while') raise()
      await counts.end()
      expect(await refused).toBeInstanceOf(GatewayError)
      expect(standing(limiter, key, null, at(0)).reserved).toBe(4 * CENT)
    },
  )

  test('that fits in the worst case is counted once another request needs that room', async () => {
    const [limiter, counts, key] = [createLimiter(), createCounts(), keyOf()]
    const reservation = enter(limiter, key).admit(counts.ask(2, [1, 1]), at(0)) as Reservation
    expect(reservation.raise(counts.ask(9, [3, 4]))).toBeNull()
    expect(await decide(counts, [enter(limiter, key).admit(counts.ask(8, [5, 6]), at(0))])).toEqual([true])
    expect(standing(limiter, key, null, at(0)).reserved).toBe(10 * CENT)
  })

  test('is refused if its count does not fit either, and keeps its reservation', async () => {
    const [limiter, counts, key] = [createLimiter(), createCounts(), keyOf()]
    const reservation = enter(limiter, key).admit(counts.ask(6, [6, 6]), at(0)) as Reservation
    const raised = reservation.raise(counts.ask(14, [11, 12]))
    await counts.end()
    expect(await raised).toMatchObject({ code: 'insufficient_quota' })
    expect(standing(limiter, key, null, at(0)).reserved).toBe(6 * CENT)
  })
})
