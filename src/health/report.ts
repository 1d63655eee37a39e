/** What is known of an upstream, each of its routes included, as the control socket tells it. */

import type { TargetState, UpstreamState } from './state.ts'

export interface UpstreamHealth {
  id: string
  /**
   * `refused` = it refuses its credential or account; `degraded` = it was late or had an error when it was probed;
   * `unknown` = nothing was tried yet. Only what is `down` or `not_ready` is not called at all.
   */
  state: 'healthy' | 'degraded' | 'refused' | 'down' | 'unknown' | 'not_ready'
  /** Why it is neither `healthy` nor `unknown`, in words. */
  reason: string | null
  /** Of several credentials those that are left out for a time, by their numbers; `refused`, or `out_of_quota`. */
  left_out: { number: number; state: 'refused' | 'out_of_quota'; reason: string; back_in_ms: number }[]
  last_ok_ms: number | null
  last_error: { message: string; at_ms: number } | null
  targets: {
    model: string
    upstream_model: string
    breaker: 'closed' | 'open' | 'half_open'
    /** Where it is not closed for some keys only: for how many. */
    open_for_keys: number | null
    failures_in_a_row: number
    /** Until the breaker half-opens; null where it is closed. */
    retry_in_ms: number | null
    /** Why it comes after others whatever its breaker: it refused requests of some keys, or its provider wants a pause. */
    reason: string | null
  }[]
}

export function toUpstreamHealth(state: UpstreamState): UpstreamHealth {
  const { upstream, workedMs, lastError, deps, routes } = state
  return {
    id: upstream.id,
    ...toState(state),
    left_out: state.credentials
      .leftOut(deps.nowMs())
      .map(({ backInMs, ...out }) => ({ ...out, back_in_ms: Math.ceil(backInMs) })),
    last_ok_ms: Number.isFinite(workedMs) ? Math.round(deps.wallMs() - (deps.nowMs() - workedMs)) : null,
    last_error: lastError,
    targets: routes.map(({ model, target }) => toTargetHealth(model, target)),
  }
}

function toState(state: UpstreamState): Pick<UpstreamHealth, 'state' | 'reason'> {
  const { notReady } = state.upstream
  if (notReady !== null) return { state: 'not_ready', reason: notReady }
  const penalty = state.present()
  // Only a target is paused.
  if (penalty && penalty.kind !== 'paused') return { state: penalty.kind, reason: penalty.reason }
  return { state: state.answers ? 'healthy' : 'unknown', reason: null }
}

function toTargetHealth(model: string, state: TargetState): UpstreamHealth['targets'][number] {
  const { upstreamModel, breaker, deps } = state
  const nowMs = deps.nowMs()
  const open = breaker?.openCircuits() ?? []
  const [last] = open.sort((a, b) => b.waitMs(nowMs) - a.waitMs(nowMs))
  const waitMs = last?.waitMs(nowMs) ?? 0
  return {
    model,
    upstream_model: upstreamModel,
    breaker: !last ? 'closed' : waitMs > 0 && !last.probe ? 'open' : 'half_open',
    open_for_keys: last && last !== breaker?.everyone ? open.length : null,
    failures_in_a_row: (last ?? breaker?.everyone)?.failures ?? 0,
    retry_in_ms: last ? Math.ceil(waitMs) : null,
    reason: state.present()?.reason ?? toRefused(state, nowMs),
  }
}

function toRefused({ refusedKeys, refusedReason }: TargetState, nowMs: number): string | null {
  const count = refusedKeys.count(nowMs)
  return count === 0 ? null : `${refusedReason} (for ${count === 1 ? 'one key' : `${count} keys`})`
}
