/**
 * How the upstreams are doing, and each target (a model there), all in memory: told by every call (`request.ts`) and by the
 * prober; read by the order of targets, `is_ready`, `/readyz` and the control socket.
 */

import type { Snapshot, Target, Upstream } from '../domain/snapshot.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { RequestHealth, tellOpened } from './request.ts'
import { type HealthDeps, isOn, isSame, type TargetState, UpstreamState } from './state.ts'

export interface Health {
  /** How targets stand for one request, which tells how its calls go. Of a healthy target it costs one look into a map. */
  forRequest(keyId: string): RequestHealth
  /** What a free probe found. */
  probed(upstream: Upstream, readiness: Readiness): void
  /** Upstreams that could not be reached last, or were late for the first time: they are probed again soon. */
  unreached(): Upstream[]
  /** Takes over a new configuration: what is gone or has another address or credential is forgotten. */
  renew(snapshot: Snapshot): void
  /** Everything that is known, for the control socket. */
  states(): UpstreamHealth[]
}

export interface UpstreamHealth {
  id: string
  /**
   * `refused` = it refuses its credential or account; `degraded` = it was late or had an error when it was probed;
   * `unknown` = nothing was tried yet. Only what is `down` or `not_ready` is not called at all.
   */
  state: 'healthy' | 'degraded' | 'refused' | 'down' | 'unknown' | 'not_ready'
  /** Why it is neither `healthy` nor `unknown`, in words. */
  reason: string | null
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
    /** Why it comes after others whatever its breaker: its model was refused, or its provider wants a pause. */
    reason: string | null
  }[]
}

/** Builds the account of all upstreams; nothing is held against anyone at first. */
export function createHealth(deps: HealthDeps): Health {
  let states = new Map<string, UpstreamState>()
  let models: Snapshot['models'] = new Map()
  /** Targets are objects that live as long as their snapshot. */
  const found = new WeakMap<Target, TargetState>()

  const stateOf = (upstream: Upstream): UpstreamState => {
    const known = states.get(upstream.id)
    if (known && isSame(known.upstream, upstream)) return known
    const state = new UpstreamState(upstream, deps)
    // What a call under an old configuration finds out is no news of the present one.
    if (!known) states.set(upstream.id, state)
    return state
  }

  const targetOf = (target: Target): TargetState => {
    const known = found.get(target)
    if (known) return known
    const state = stateOf(target.upstream).target(target.upstreamModel)
    found.set(target, state)
    return state
  }

  return {
    forRequest: (keyId) => new RequestHealth(keyId, targetOf, deps.nowMs),
    probed(upstream, readiness) {
      if (readiness.state === 'not_made') return
      const state = stateOf(upstream)
      state.probed(readiness)
      if (!state.probeFailed) return
      for (const target of state.targets.values()) {
        if (target.breaker.confirmFailures(deps.nowMs())) tellOpened(target, null)
      }
      deps.onUnreached?.()
    },
    unreached: () =>
      [...states.values()]
        .filter(({ unreached, timeouts }) => unreached || timeouts === 1)
        .map(({ upstream }) => upstream),
    renew(snapshot) {
      models = snapshot.models
      const next = new Map<string, UpstreamState>()
      for (const upstream of snapshot.upstreams.values()) {
        const known = states.get(upstream.id)
        const state = known && isSame(known.upstream, upstream) ? known : new UpstreamState(upstream, deps)
        state.upstream = upstream
        next.set(upstream.id, state)
      }
      const routed = new Set<TargetState | undefined>()
      for (const { targets } of models.values()) {
        for (const { upstream, upstreamModel } of targets) routed.add(next.get(upstream.id)?.target(upstreamModel))
      }
      for (const { targets } of next.values()) {
        for (const [name, target] of targets) if (!routed.has(target)) targets.delete(name)
      }
      states = next
    },
    states: () => [...states.values()].map((state) => toUpstreamHealth(state, models)),
  }
}

/** Tells all that is known of an upstream, each of its routes included. */
function toUpstreamHealth(state: UpstreamState, models: Snapshot['models']): UpstreamHealth {
  const { upstream, workedMs, lastError, deps } = state
  const nowMs = deps.nowMs()
  return {
    id: upstream.id,
    ...toState(state, nowMs),
    last_ok_ms: Number.isFinite(workedMs) ? Math.round(deps.wallMs() - (nowMs - workedMs)) : null,
    last_error: lastError,
    targets: [...models.values()].flatMap((model) =>
      model.targets
        .filter((target) => target.upstream.id === upstream.id)
        .flatMap(({ upstreamModel }) => {
          const target = state.targets.get(upstreamModel)
          return target ? [toTargetHealth(model.facts.id, target, nowMs)] : []
        }),
    ),
  }
}

function toState(
  { upstream, penalty, answers }: UpstreamState,
  nowMs: number,
): Pick<UpstreamHealth, 'state' | 'reason'> {
  if (upstream.notReady !== null) return { state: 'not_ready', reason: upstream.notReady }
  // Only a target is paused.
  if (isOn(penalty, nowMs) && penalty.kind !== 'paused') return { state: penalty.kind, reason: penalty.reason }
  return { state: answers ? 'healthy' : 'unknown', reason: null }
}

function toTargetHealth(model: string, state: TargetState, nowMs: number): UpstreamHealth['targets'][number] {
  const { upstreamModel, breaker, penalty } = state
  const { views, isForKeys } = breaker.openViews(nowMs)
  const [view] = views.sort((a, b) => b.waitMs - a.waitMs)
  return {
    model,
    upstream_model: upstreamModel,
    breaker: view?.phase ?? 'closed',
    open_for_keys: isForKeys ? views.length : null,
    failures_in_a_row: view?.failures ?? 0,
    retry_in_ms: view && view.phase !== 'closed' ? Math.ceil(view.waitMs) : null,
    reason: isOn(penalty, nowMs) ? penalty.reason : null,
  }
}
