/** Budgets compared with a model: a list of every request that a key or a team ever had. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../src/domain/error.ts'
import type { Budget } from '../../src/domain/limits.ts'
import type { Reservation } from '../../src/limits/limiter.ts'
import { at, budget, CENT, cents, createLimiter, DAY, HOUR, held, limited, NOON, standing, toTeam } from './asking.ts'

const keyOf = (of: Budget | null, id = 'k1') => limited({}, { budget: of, id })

/** Amounts in cents; `key` and `team` each pick one of two, `which` one of the reservations. */
const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('ask' as const),
      key: fc.nat(1),
      team: fc.nat(2),
      amount: fc.nat(12),
      which: fc.constant(0),
    }),
  },
  fc.record({
    do: fc.constantFrom('settle' as const, 'cancel' as const, 'raise' as const),
    key: fc.constant(0),
    team: fc.constant(0),
    amount: fc.nat(25),
    which: fc.nat(),
  }),
  fc.record({
    do: fc.constantFrom('ahead' as const, 'back' as const),
    key: fc.constant(0),
    team: fc.constant(0),
    amount: fc.nat(30),
    which: fc.constant(0),
  }),
)

/** A budget's expected amount, by brute force: every request that it ever admitted, by period. */
interface Told {
  budget: number
  requests: { reserved: number; spent: number; day: number }[]
}

test("reserved and spent are the sums of the period's requests, for key and team or for neither", () => {
  const keys = [keyOf(budget(40)), keyOf(budget(40), 'k2')]
  const teams = [null, toTeam(budget(50)), toTeam(budget(50), 't2')]
  fc.assert(
    fc.property(fc.array(step, { minLength: 10, maxLength: 80 }), (steps) => {
      const limiter = createLimiter()
      const told = new Map<string, Told>()
      const open: { reservation: Reservation; claims: [Told, Told['requests'][number]][] }[] = []
      let wallMs = NOON
      /** The latest time of the clock, which is repeatedly set back by up to five days from there. */
      let latestMs = NOON
      const today = () => Math.floor(latestMs / DAY)
      const sumOf = ({ requests }: Told, day: number) =>
        requests.filter((one) => one.day === day).reduce((sum, { reserved, spent }) => sum + reserved + spent, 0)
      const toTold = (id: string, of: Budget): Told => {
        const one = told.get(id) ?? { budget: of.nanoUsd / CENT, requests: [] }
        told.set(id, one)
        return one
      }
      /** Makes every budget read the clock. */
      const look = () => {
        for (const key of keys)
          for (const team of teams) held(limiter.admit(key, team, cents(0), at(0, wallMs))).cancel()
      }
      look()
      for (const { do: what, key: k, team: t, amount, which } of steps) {
        if (what === 'ahead' || what === 'back') {
          wallMs = what === 'ahead' ? latestMs + amount * HOUR : latestMs - amount * 4 * HOUR
          latestMs = Math.max(wallMs, latestMs)
          look()
          continue
        }
        if (what === 'ask') {
          const [key, team] = [keys[k] ?? keyOf(null), teams[t] ?? null]
          const under = [key, team].flatMap((one) => (one?.budget ? [toTold(one.id, one.budget)] : []))
          const fits = amount === 0 || under.every((one) => sumOf(one, today()) + amount <= one.budget)
          const decision = limiter.admit(key, team, cents(amount), at(0, wallMs))
          expect(decision instanceof GatewayError).toBe(!fits)
          if (decision instanceof GatewayError) continue
          const claims = under.map((one): [Told, Told['requests'][number]] => {
            const request = { reserved: amount, spent: 0, day: today() }
            one.requests.push(request)
            return [one, request]
          })
          open.push({ reservation: decision, claims })
          continue
        }
        const chosen = open.length === 0 ? undefined : open.splice(which % open.length, 1)[0]
        if (chosen === undefined) continue
        if (what === 'raise') {
          open.push(chosen)
          const fits = chosen.claims.every(([one, request]) => {
            const more = Math.max(0, amount - request.reserved)
            return more === 0 || sumOf(one, request.day) + more <= one.budget
          })
          expect(chosen.reservation.raise(cents(amount)) === null).toBe(fits)
          if (fits) for (const [, request] of chosen.claims) request.reserved = Math.max(request.reserved, amount)
          continue
        }
        for (const [, request] of chosen.claims) {
          request.reserved = 0
          request.spent = what === 'settle' ? amount : 0
        }
        if (what === 'settle') chosen.reservation.settle(cents(amount))
        else chosen.reservation.cancel()
      }
      for (const key of keys) {
        const one = toTold(key.id, budget(40))
        const { spent, reserved } = standing(limiter, key, null, at(0, wallMs))
        expect(reserved).toBeGreaterThanOrEqual(0)
        expect(spent + reserved).toBe(sumOf(one, today()) * CENT)
      }
    }),
    { numRuns: 300 },
  )
})
