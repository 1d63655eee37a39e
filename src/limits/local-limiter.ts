/**
 * The limiter of a single process: the rates of keys, teams and upstreams, and budgets, all in memory. `server/live.ts` makes
 * it. Pure: no clock, no disk.
 */
import type { Decision } from '../domain/error.ts'
import type { Key, Team } from '../domain/snapshot.ts'
import { Budgets, type BudgetWarning } from './budget.ts'
import { LimitedRequest } from './limited-request.ts'
import { type EnteredRequest, isLimited, type Limiter, type Permit, type Reservation } from './limiter.ts'
import { toOwnLimitError } from './messages.ts'
import { hasLimits, RateLimiters } from './rates.ts'

/** Decides at once. */
export interface LocalLimiter extends Limiter {
  enter(key: Key, team: Team | null, monotonicMs: number): Decision<EnteredRequest>
}

export interface LimiterOptions {
  /** Called when what a key or team has spent first reaches BUDGET_WARNING_PERCENT of its budget in a period, and 100. */
  onWarning?(warning: BudgetWarning): void
  /** The latest time that the ledger has a request of, before `MOST_STEP_MS` from now. */
  latestMs?: number
}

/** What a key without limits is given, always the same, so that it costs nothing. */
const UNLIMITED: Reservation = Object.freeze({
  headers: {},
  hasBudget: false,
  raise: () => null,
  room: () => Number.POSITIVE_INFINITY,
  releaseSlot() {},
  settle() {},
  cancel() {},
})
const UNLIMITED_REQUEST: EnteredRequest = Object.freeze({
  admit: () => UNLIMITED,
  room: () => Number.POSITIVE_INFINITY,
  cancel() {},
  refuse() {},
})
const UNLIMITED_PERMIT: Permit = Object.freeze({ leave() {} })

export function createLimiter({ onWarning = () => {}, latestMs = 0 }: LimiterOptions = {}): LocalLimiter {
  const keys = new RateLimiters()
  const teams = new RateLimiters()
  const upstreams = new RateLimiters()
  const budgets = new Budgets(onWarning, latestMs)

  return {
    enter(key, team, monotonicMs) {
      if (!isLimited(key, team)) return UNLIMITED_REQUEST
      const ofKey = hasLimits(key.limits) ? keys.of(key.id, monotonicMs) : null
      const ofTeam = team !== null && hasLimits(team.limits) ? teams.of(team.id, monotonicMs) : null
      return new LimitedRequest(budgets, key, team, ofKey, ofTeam).enter(monotonicMs)
    },

    permit({ id, limits }, tokens, monotonicMs) {
      if (!hasLimits(limits)) return UNLIMITED_PERMIT
      const rates = upstreams.of(id, monotonicMs)
      const full = rates.callRefusal(limits, tokens, monotonicMs)
      return full ? toOwnLimitError(id, full) : rates.take(tokens, monotonicMs)
    },

    isFull: ({ id, limits }, tokens, monotonicMs) =>
      hasLimits(limits) && upstreams.of(id, monotonicMs).callRefusal(limits, tokens, monotonicMs) !== null,

    renew: (allKeys, allTeams, spent, { wallMs }) => budgets.renew(allKeys, allTeams, spent, wallMs),
    ended: (request) => budgets.ended(request),

    replay(past, monotonicMs) {
      for (const { keyId, teamId, upstream, tokens, agoMs } of past) {
        // By a wall clock that was set back meanwhile, the past may lie ahead.
        const atMs = monotonicMs - Math.max(0, agoMs)
        if (keyId !== null) keys.of(keyId, monotonicMs).window.add(1, tokens, atMs)
        if (teamId !== null) teams.of(teamId, monotonicMs).window.add(1, tokens, atMs)
        if (upstream !== null) upstreams.of(upstream, monotonicMs).window.add(1, tokens, atMs)
      }
    },
  }
}
