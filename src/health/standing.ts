/** How penalties and breakers add up: for the next request of a key, and in words for clients and administrators. Pure. */

import type { Snapshot } from '../domain/snapshot.ts'
import { openKeys, viewsOf } from './breaker.ts'
import type { Standing, Unavailable, UpstreamHealth } from './health.ts'
import { isOn, type TargetState, type UpstreamState } from './state.ts'

/** Looks at everything that is held against a target. */
export function judge({ owner, breaker, refused, paused }: TargetState, keyId: string, nowMs: number): Standing {
  if (isOn(owner.down, nowMs)) return 'unavailable'
  const views = viewsOf(breaker, keyId, nowMs)
  if (views.some(({ phase }) => phase === 'open')) return 'unavailable'
  if (views.some(({ phase, isProbeDue }) => phase === 'half_open' && !isProbeDue)) return 'degraded'
  return [owner.refused, owner.probed, refused, paused].some((each) => isOn(each, nowMs)) ? 'degraded' : 'healthy'
}

/** An upstream that is down is probed this often. */
const DOWN_RETRY_MS = 2_000

/** Says why a target may not be called now; null where it may. */
export function toUnavailable({ owner, breaker }: TargetState, keyId: string, nowMs: number): Unavailable | null {
  const { down, upstream } = owner
  if (isOn(down, nowMs)) {
    return { reason: `its upstream \`${upstream.id}\` is down: ${down.reason}`, retryAfterMs: DOWN_RETRY_MS }
  }
  const [view] = viewsOf(breaker, keyId, nowMs).sort((a, b) => b.waitMs - a.waitMs)
  if (!view || view.waitMs === 0) return null
  return {
    reason: `its last ${view.failures} calls to \`${upstream.id}\` failed, the last one with: ${view.reason}`,
    // A half-open probe may end at any moment.
    retryAfterMs: view.phase === 'open' ? Math.max(1_000, view.waitMs) : 1_000,
  }
}

/** Tells all that is known of an upstream, each of its routes included. */
export function toUpstreamHealth(state: UpstreamState, models: Snapshot['models'], nowMs: number): UpstreamHealth {
  const { upstream, lastOkMs, lastError } = state
  return {
    id: upstream.id,
    ...toState(state, nowMs),
    last_ok_ms: lastOkMs,
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

function toState(state: UpstreamState, nowMs: number): Pick<UpstreamHealth, 'state' | 'reason'> {
  const { upstream, down, refused, probed, answers } = state
  if (upstream.notReady !== null) return { state: 'not_ready', reason: upstream.notReady }
  if (isOn(down, nowMs)) return { state: 'down', reason: down.reason }
  if (isOn(refused, nowMs)) return { state: 'refused', reason: refused.reason }
  if (isOn(probed, nowMs)) return { state: probed.state, reason: probed.reason }
  return { state: answers ? 'healthy' : 'unknown', reason: null }
}

function toTargetHealth(model: string, state: TargetState, nowMs: number): UpstreamHealth['targets'][number] {
  const { upstreamModel, breaker, refused, paused } = state
  const everyone = viewsOf(breaker, null, nowMs)
  const keys = everyone.some(({ phase }) => phase !== 'closed') ? [] : openKeys(breaker, nowMs)
  const [view] = (keys.length > 0 ? keys : everyone).sort((a, b) => b.waitMs - a.waitMs)
  return {
    model,
    upstream_model: upstreamModel,
    breaker: view?.phase ?? 'closed',
    open_for_keys: keys.length > 0 ? keys.length : null,
    failures_in_a_row: view?.failures ?? 0,
    retry_in_ms: view && view.phase !== 'closed' ? Math.ceil(view.waitMs) : null,
    reason: [refused, paused].find((each) => isOn(each, nowMs))?.reason ?? null,
  }
}
