/**
 * What a key may do: rates, concurrency and budgets, reserved together before a request is dispatched or not at all, and
 * settled once with what it really used (promise 3). The same rates keep an upstream under its provider's own limits.
 * Synchronous and in one process, so that nothing comes between the look and the reservation. Pure: no clock, no disk.
 */
import { allow, type Decision, type GatewayError, refuse, type UpstreamError } from '../domain/error.ts'
import type { Key, Team, Upstream } from '../domain/snapshot.ts'
import { type BudgetWarning, createBudgets, type Reserve } from './budget.ts'
import { type Headers, NO_HEADERS, toRateHeaders } from './headers.ts'
import { createGates, hasLimits, type Place } from './rates.ts'
import { toBudgetError, toRateError, toUpstreamError } from './refusal.ts'

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

export interface Hold {
  /** `x-ratelimit-*`, as they stood when it was admitted; empty for a key without rates. */
  readonly headers: Readonly<Record<string, string>>
  /**
   * Makes the reserve at least `amount`, for a further paid call of the same request. Returns `insufficient_quota` where
   * a budget has no room for that; then nothing has changed.
   */
  raise(amount: Amount): GatewayError | null
  /** Frees the slot before it is known what was used. */
  free(): void
  /** Turns the reserve into what was used, and frees the slot. The first call counts, later ones do nothing. */
  settle(actual: Amount): void
  /** Gives all of it back, the request too: nothing was dispatched. */
  cancel(): void
}

/** A call's place at an upstream that has limits. */
export interface Pass {
  /** Frees the place. `tokens` is what the call used; null leaves it at the estimate. Idempotent. */
  leave(tokens: number | null): void
}

/** Whose budget it is. */
export interface Scope {
  kind: 'key' | 'team'
  id: string
}

export interface Limiter {
  /** Reserves everything or refuses: `request_limit`, `token_limit` or `insufficient_quota`. */
  admit(key: Key, team: Team | null, amount: Amount, now: Moment): Decision<Hold>
  /** Takes a place at an upstream. Returns an UpstreamError with status 429 where its limits leave none. */
  enter(upstream: Upstream, tokens: number, monotonicMs: number): Pass | UpstreamError
  /** Tells whether `enter` would refuse now. */
  isFull(upstream: Upstream, tokens: number, monotonicMs: number): boolean
  /**
   * Takes over keys and teams as they are now. `spent` is asked once for each budget that was not there before: what was
   * spent since `fromMs`, open reserves included. Where it throws, that is thrown on and nothing has changed.
   */
  renew(keys: Iterable<Key>, teams: Iterable<Team>, spent: (scope: Scope, fromMs: number) => number, now: Moment): void
  /** Counts what was admitted before this process began: requests of the last minute, oldest first. */
  replay(
    past: Iterable<{ keyId: string | null; upstream: string | null; tokens: number; agoMs: number }>,
    monotonicMs: number,
  ): void
}

interface LimiterOptions {
  /** Called when what a key or team has spent first reaches BUDGET_WARNING_PERCENT of its budget in a period, and 100. */
  onWarning?(warning: BudgetWarning): void
}

/** Whether there is anything to hold a key to. Of one that there is not, `admit` reads no amount. */
export const isLimited = (key: Key, team: Team | null): boolean =>
  hasLimits(key.limits) || key.budget !== null || (team !== null && team.budget !== null)

/** Nothing to hold to: what a key without limits is given, always the same, so that it costs nothing. */
const FREE: Decision<Hold> = Object.freeze(
  allow<Hold>(Object.freeze({ headers: NO_HEADERS, raise: () => null, free() {}, settle() {}, cancel() {} })),
)
const FREE_PASS: Pass = Object.freeze({ leave() {} })

export function createLimiter({ onWarning = () => {} }: LimiterOptions = {}): Limiter {
  const keys = createGates()
  const upstreams = createGates()
  const budgets = createBudgets(onWarning)

  return {
    admit(key, team, { tokens, nanoUsd }, { monotonicMs, wallMs }) {
      if (!isLimited(key, team)) return FREE
      // Look at all of it, and only then take: a request that is refused leaves no trace.
      const gate = hasLimits(key.limits) ? keys.of(key.id, monotonicMs) : null
      const toHeaders = () => toRateHeaders(key.limits, gate, monotonicMs)
      const full = gate?.refusal(key.limits, tokens, monotonicMs)
      if (full) return refuse(toRateError(key.name, full, toHeaders()))
      const reserve = budgets.reserve(key, team, nanoUsd, wallMs)
      if ('budget' in reserve) return refuse(toBudgetError(reserve, toHeaders()))
      const place = gate?.enter(tokens, monotonicMs) ?? null
      return allow(toHold(place, reserve, toHeaders()))
    },

    enter({ id, limits }, tokens, monotonicMs) {
      if (!hasLimits(limits)) return FREE_PASS
      const gate = upstreams.of(id, monotonicMs)
      const full = gate.refusal(limits, tokens, monotonicMs)
      return full ? toUpstreamError(id, full) : toPass(gate.enter(tokens, monotonicMs))
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

function toHold(place: Place | null, reserve: Reserve, headers: Headers): Hold {
  let isOver = false
  return {
    headers,
    raise({ tokens, nanoUsd }) {
      if (isOver) return null
      const full = reserve.raise(nanoUsd)
      if (full) return toBudgetError(full, headers)
      place?.raise(tokens)
      return null
    },
    free() {
      if (!isOver) place?.free()
    },
    settle({ tokens, nanoUsd }) {
      if (isOver) return
      isOver = true
      place?.leave(tokens)
      reserve.settle(nanoUsd)
    },
    cancel() {
      if (isOver) return
      isOver = true
      place?.cancel()
      reserve.settle(0)
    },
  }
}

function toPass(place: Place): Pass {
  let isOver = false
  return {
    leave(tokens) {
      if (isOver) return
      isOver = true
      place.leave(tokens)
    },
  }
}
