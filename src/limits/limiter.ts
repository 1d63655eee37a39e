/**
 * What a key may do: rates, concurrency and budgets, reserved together before a request is dispatched or not at all, and
 * settled once with what it really used. The same rates keep an upstream under its provider's own limits. `gateway/` asks
 * for each request and each call. Pure: no clock, no disk.
 */
import type { Decision, GatewayError, UpstreamError } from '../domain/error.ts'
import type { Limits } from '../domain/settings.ts'
import type { Key, Team, Upstream } from '../domain/snapshot.ts'
import { BudgetReservation, Budgets, type BudgetWarning } from './budget.ts'
import { type Headers, toBudgetError, toRateError, toUpstreamError } from './messages.ts'
import { hasLimits, type RateLimiter, RateLimiters, type Slot, toDuration } from './rates.ts'

/** What a request may at most use and cost, or what it has. */
export interface Amount {
  tokens: number
  nanoUsd: number
}

export interface Moment {
  /** A clock that never steps: rates go by it. */
  monotonicMs: number
  /** Wall clock: the periods of budgets go by it. */
  wallMs: number
}

/** What one request has reserved. */
export interface Reservation {
  /** `x-ratelimit-*`, as they stood when it was admitted; empty for a key without rates. */
  readonly headers: Headers
  /**
   * Makes the reservation at least `amount`, for an additional paid call of the same request. Returns `insufficient_quota`
   * where a budget has no room for that; then nothing has changed.
   */
  raise(amount: Amount): GatewayError | null
  /** Gives back the concurrency slot before it is known what was used. */
  releaseSlot(): void
  /** Turns it into what was used, and releases the slot. The first call counts, later ones do nothing. */
  settle(actual: Amount): void
  /** Gives all of it back, the request too: nothing was dispatched. */
  cancel(): void
}

/** A call's right to be at an upstream that has limits. */
export interface Permit {
  /** Ends it. `tokens` is what the call used; null leaves it at the estimate. Idempotent. */
  leave(tokens: number | null): void
}

/** Whose budget it is. */
export interface Scope {
  kind: 'key' | 'team'
  id: string
}

export interface Limiter {
  /**
   * Reserves everything or refuses: `request_limit`, `token_limit` or `insufficient_quota`. A promise is for limiters that
   * several processes share; the one here decides at once, so that nothing comes between the check and the reservation.
   */
  admit(
    key: Key,
    team: Team | null,
    amount: Amount,
    now: Moment,
  ): Decision<Reservation> | Promise<Decision<Reservation>>
  /** Lets a call in at an upstream. Returns an UpstreamError with status 429 where its limits leave no room. */
  enter(upstream: Upstream, tokens: number, monotonicMs: number): Permit | UpstreamError
  /** Tells whether `enter` would refuse now. */
  isFull(upstream: Upstream, tokens: number, monotonicMs: number): boolean
  /**
   * Takes over keys and teams as they are now. `spent` is asked once for each budget that was not there before: what was
   * spent since `fromMs`, open reservations included. Where it throws, that is thrown on and nothing has changed.
   */
  renew(keys: Iterable<Key>, teams: Iterable<Team>, spent: (scope: Scope, fromMs: number) => number, now: Moment): void
  /** Counts what was admitted before this process began: requests of the last minute, oldest first. */
  replay(
    past: Iterable<{ keyId: string | null; upstream: string | null; tokens: number; agoMs: number }>,
    monotonicMs: number,
  ): void
}

/** The limiter of a single process. */
export interface LocalLimiter extends Limiter {
  admit(key: Key, team: Team | null, amount: Amount, now: Moment): Decision<Reservation>
}

interface LimiterOptions {
  /** Called when what a key or team has spent first reaches BUDGET_WARNING_PERCENT of its budget in a period, and 100. */
  onWarning?(warning: BudgetWarning): void
}

/** Whether a key or its team has any limit. Of one that has none, `admit` reads no amount. */
export const isLimited = (key: Key, team: Team | null): boolean =>
  hasLimits(key.limits) || key.budget !== null || (team !== null && team.budget !== null)

/** What a key without limits is given, always the same, so that it costs nothing. */
const UNLIMITED: Reservation = Object.freeze({
  headers: {},
  raise: () => null,
  releaseSlot() {},
  settle() {},
  cancel() {},
})
const UNLIMITED_PERMIT: Permit = Object.freeze({ leave() {} })

export function createLimiter({ onWarning = () => {} }: LimiterOptions = {}): LocalLimiter {
  const keys = new RateLimiters()
  const upstreams = new RateLimiters()
  const budgets = new Budgets(onWarning)

  return {
    admit(key, team, { tokens, nanoUsd }, { monotonicMs, wallMs }) {
      if (!isLimited(key, team)) return UNLIMITED
      // Check all of it, and only then take: a request that is refused leaves no trace.
      const rates = hasLimits(key.limits) ? keys.of(key.id, monotonicMs) : null
      const full = rates?.refusal(key.limits, tokens, monotonicMs)
      if (full) return toRateError(key.name, full, toRateHeaders(key.limits, rates, monotonicMs))
      const budget = budgets.reserve(key, team, nanoUsd, wallMs)
      if (!(budget instanceof BudgetReservation))
        return toBudgetError(budget, toRateHeaders(key.limits, rates, monotonicMs))
      const slot = rates?.take(tokens, monotonicMs) ?? null
      return new LocalReservation(slot, budget, toRateHeaders(key.limits, rates, monotonicMs))
    },

    enter({ id, limits }, tokens, monotonicMs) {
      if (!hasLimits(limits)) return UNLIMITED_PERMIT
      const rates = upstreams.of(id, monotonicMs)
      const full = rates.refusal(limits, tokens, monotonicMs)
      return full ? toUpstreamError(id, full) : rates.take(tokens, monotonicMs)
    },

    isFull: ({ id, limits }, tokens, monotonicMs) =>
      hasLimits(limits) && upstreams.of(id, monotonicMs).refusal(limits, tokens, monotonicMs) !== null,

    renew: (all, teams, spent, { wallMs }) => budgets.renew(all, teams, spent, wallMs),

    replay(past, monotonicMs) {
      for (const { keyId, upstream, tokens, agoMs } of past) {
        // By a wall clock that was set back meanwhile, the past may lie ahead.
        const atMs = monotonicMs - Math.max(0, agoMs)
        if (keyId !== null) keys.of(keyId, monotonicMs).window.add(tokens, atMs)
        if (upstream !== null) upstreams.of(upstream, monotonicMs).window.add(tokens, atMs)
      }
    },
  }
}

/** Tells the rates that a key has, as they stand now: what is left, and when all of it is free again. */
function toRateHeaders(
  { requestsPerMinute, tokensPerMinute }: Limits,
  rates: RateLimiter | null,
  nowMs: number,
): Headers {
  const headers: Record<string, string> = {}
  if (rates === null) return headers
  const { window } = rates
  if (requestsPerMinute !== null) {
    headers['x-ratelimit-limit-requests'] = String(requestsPerMinute)
    headers['x-ratelimit-remaining-requests'] = toLeft(requestsPerMinute, window.used('requests', nowMs))
    headers['x-ratelimit-reset-requests'] = toDuration(window.emptyMs('requests', nowMs))
  }
  if (tokensPerMinute !== null) {
    headers['x-ratelimit-limit-tokens'] = String(tokensPerMinute)
    headers['x-ratelimit-remaining-tokens'] = toLeft(tokensPerMinute, window.used('tokens', nowMs))
    headers['x-ratelimit-reset-tokens'] = toDuration(window.emptyMs('tokens', nowMs))
  }
  return headers
}

const toLeft = (limit: number, used: number) => String(Math.max(0, limit - used))

class LocalReservation implements Reservation {
  readonly headers: Headers
  readonly #slot: Slot | null
  readonly #budget: BudgetReservation
  #isOver = false

  constructor(slot: Slot | null, budget: BudgetReservation, headers: Headers) {
    this.#slot = slot
    this.#budget = budget
    this.headers = headers
  }

  raise({ tokens, nanoUsd }: Amount): GatewayError | null {
    if (this.#isOver) return null
    const full = this.#budget.raise(nanoUsd)
    if (full) return toBudgetError(full, this.headers)
    this.#slot?.raise(tokens)
    return null
  }

  releaseSlot(): void {
    this.#slot?.release()
  }

  settle({ tokens, nanoUsd }: Amount): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#slot?.leave(tokens)
    this.#budget.settle(nanoUsd)
  }

  cancel(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#slot?.cancel()
    this.#budget.settle(0)
  }
}
