/**
 * What a key may do, and with it its team, in two steps: the rates of requests and the concurrency before a request's body is
 * read, tokens and budgets before it is dispatched, settled once with what it really used. The same rates keep an upstream under its
 * provider's own limits. This is what a limiter must do, whoever keeps count, and the one of a single
 * process. `gateway/` asks for each request and each call. Pure: no clock, no disk.
 */
import type { Decision, GatewayError, UpstreamError } from '../domain/error.ts'
import type { Key, Team, Upstream } from '../domain/snapshot.ts'
import { Budgets, type BudgetWarning, type Counting, type Ended, type SpentOf } from './budget.ts'
import { LimitedRequest } from './limited-request.ts'
import { type Headers, toOwnLimitError } from './messages.ts'
import { hasLimits, RateLimiters } from './rates.ts'

/** What a request may at most use and cost, or what it has. */
export interface Amount {
  tokens: number
  nanoUsd: number
}

/** What a request asks for: tokens by the estimate, money by the worst case. */
export interface Ask extends Amount {
  /** How it is found out what it may cost where a budget has no room for the worst; without it, the worst decides. */
  counting?: Counting
  /** Whether it is for more of an answer that has begun. */
  isMore?: boolean
}

export interface Moment {
  monotonicMs: number
  /** Wall clock: the periods of budgets go by the latest that it has shown. */
  wallMs: number
}

/** A request that may be read: it counts as one of its key's and its team's, and has a slot of both. Ended by `admit`, `cancel` or `refuse`. */
export interface EnteredRequest {
  /**
   * Reserves all of this, or refuses and has changed nothing: `token_limit` or `insufficient_quota`. May be asked again after
   * a refusal. A promise is for limiters that several processes share, and for a budget that is nearly spent: prompts are
   * counted then, and it is decided anew by the counts. The limiter here lets nothing come between a check and its reservation.
   */
  admit(ask: Ask, now: Moment): Decision<Reservation> | Promise<Decision<Reservation>>
  /** How many nano-dollars the budgets of key and team have room for now; Infinity without any. */
  room(now: Moment): number
  /** Gives the request and its slot back: nothing of it was read. */
  cancel(): void
  /**
   * Ends it with the answer that it gets in place of being admitted, and puts `x-ratelimit-*` beside that. The request stays
   * counted, but where it would have been taken at another time.
   */
  refuse(error: GatewayError, monotonicMs: number): void
}

export interface Reservation {
  /** `x-ratelimit-*`, as they stood when it was admitted: of key and team, what leaves less; empty without rates. */
  readonly headers: Headers
  /** Whether it is under a budget: otherwise nobody asks what it may cost. */
  readonly hasBudget: boolean
  /**
   * Makes the reservation at least what is asked for, for an additional paid call of the same request, by the same rule as
   * `admit`. Returns `insufficient_quota` where a budget has no room for that; then nothing has changed.
   */
  raise(ask: Ask): GatewayError | null | Promise<GatewayError | null>
  /** How many nano-dollars it may hold at most: what it holds, and what there is room for beside. Infinity without a budget. */
  room(): number
  /** Gives back the concurrency slots before it is known what was used. */
  releaseSlot(): void
  /** Turns it into what was used, and releases the slots. The first call counts, later ones do nothing. */
  settle(actual: Amount): void
  /** Gives all of it back, the request too: nothing was dispatched. */
  cancel(): void
}

/** A call's right to be at an upstream that has limits. */
export interface Permit {
  /** Ends it. `tokens` is what the call used; null leaves it at the estimate. Idempotent. */
  leave(tokens: number | null): void
}

export interface Limiter {
  /** Lets a request in, before its body is read, or refuses it: `request_limit`. */
  enter(key: Key, team: Team | null, monotonicMs: number): Decision<EnteredRequest> | Promise<Decision<EnteredRequest>>
  /** Lets a call in at an upstream. Returns an UpstreamError with status 429 where its limits leave no room. */
  permit(upstream: Upstream, tokens: number, monotonicMs: number): Permit | UpstreamError
  /** Tells whether `permit` would refuse now. */
  isFull(upstream: Upstream, tokens: number, monotonicMs: number): boolean
  /**
   * Takes over keys and teams as they are now. `spent` is asked once for each budget that was not there before: what was
   * spent from `fromMs` on and before `untilMs`, open reservations included. Where it throws, that is thrown on and nothing
   * has changed.
   */
  renew(keys: Iterable<Key>, teams: Iterable<Team>, spent: SpentOf, now: Moment): void
  /** Has a request that `spent` has counted as under way count with what it has cost; of others, nothing changes. */
  ended(request: Ended): void
  /** Counts what was admitted before this process began: requests of the last minute, oldest first. */
  replay(
    past: Iterable<{
      keyId: string | null
      teamId: string | null
      upstream: string | null
      tokens: number
      agoMs: number
    }>,
    monotonicMs: number,
  ): void
}

/** Whether a key or its team has any limit. Of one that has none, `admit` reads no amount. */
export const isLimited = (key: Key, team: Team | null): boolean =>
  hasLimits(key.limits) || key.budget !== null || (team !== null && (hasLimits(team.limits) || team.budget !== null))

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
