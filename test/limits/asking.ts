/** Calls a limiter as the gateway does; a test names only the values it is about. */
import { type Decision, GatewayError } from '../../src/domain/error.ts'
import { type Budget, type Limits, NO_LIMITS, type Period } from '../../src/domain/limits.ts'
import type { Key, Team, Upstream } from '../../src/domain/snapshot.ts'
import {
  type Amount,
  createLimiter as createLocalLimiter,
  type Limiter,
  type LimiterOptions,
  type Moment,
  type Reservation,
} from '../../src/limits/limiter.ts'
import { toTeam as toAnyTeam, toKey, toTarget } from '../support/snapshot.ts'

/** A Wednesday, noon. */
export const NOON = Date.UTC(2026, 10, 18, 12)
export const HOUR = 3_600_000
export const DAY = 24 * HOUR
export const CENT = 10_000_000

export const at = (monotonicMs: number, wallMs = NOON + monotonicMs): Moment => ({ monotonicMs, wallMs })

export const limited = (limits: Partial<Limits>, more: Partial<Key> = {}): Key =>
  toKey({ name: 'ann', limits: { ...NO_LIMITS, ...limits }, ...more })

export const budget = (cents: number, period: Period = 'day'): Budget => ({ nanoUsd: cents * CENT, period })

/** The key's team with these limits, and with a budget. */
export const toTeam = (of: Budget | null, id = 't1', limits: Partial<Limits> = {}): Team =>
  toAnyTeam({ id, budget: of, limits: { ...NO_LIMITS, ...limits } })

export const toUpstream = (limits: Partial<Limits>): Upstream =>
  toTarget({ limits: { ...NO_LIMITS, ...limits } }).upstream

export const tokens = (count: number): Amount => ({ tokens: count, nanoUsd: 0 })
export const cents = (count: number): Amount => ({ tokens: 1, nanoUsd: count * CENT })

/** A limiter with both steps in one call. */
export interface AskedLimiter extends Limiter {
  admit(key: Key, team: Team | null, amount: Amount, now: Moment, id?: string): Decision<Reservation>
}

export function createLimiter(options?: LimiterOptions): AskedLimiter {
  const limiter = createLocalLimiter(options)
  return {
    ...limiter,
    admit(key, team, amount, now, id = 'r1') {
      const entry = limiter.enter(id, key, team, now.monotonicMs)
      if (entry instanceof GatewayError) return entry
      const decision = atOnce(entry.admit(amount, now))
      if (decision instanceof GatewayError) void entry.refuse(decision, now.monotonicMs)
      return decision
    },
  }
}

/** Decisions without a count. */
export function atOnce<T>(decided: T | Promise<T>): T {
  if (decided instanceof Promise) throw new Error('is counted')
  return decided
}

export function held(decision: Decision<Reservation>): Reservation {
  if (decision instanceof GatewayError) throw decision
  return decision
}

export function refused(decision: Decision<Reservation>): GatewayError {
  if (!(decision instanceof GatewayError)) throw new Error('was admitted')
  return decision
}

/** A budget's spent and reserved amount in nano-dollars, from its refusal: requests more than there can be. */
export function standing(limiter: AskedLimiter, key: Key, team: Team | null, now: Moment) {
  const { message } = refused(limiter.admit(key, team, { tokens: 1, nanoUsd: Number.MAX_SAFE_INTEGER }, now))
  const [, kind, spent = '', reserved = ''] =
    /[Bb]udget exceeded for (key|team) .* \$(\S+) spent, \$(\S+) reserved/.exec(message) ?? []
  const toNano = (usd: string) => Math.round(Number(usd) * 1e9)
  return { kind, spent: toNano(spent), reserved: toNano(reserved) }
}
