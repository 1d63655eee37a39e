/** How what is held against an upstream and a target adds up, for the next request and for people. Pure. */
import type { Snapshot } from '../store/snapshot.ts'
import { phaseOf, waitOf, wantsTrial } from './breaker.ts'
import type { Health, Standing, UpstreamHealth } from './health.ts'
import type { Against, Place, Spot } from './place.ts'

/** Whether it still holds. */
export const isOn = (against: Against | null, nowMs: number): against is Against =>
  against !== null && nowMs < against.untilMs

/** Looks at everything that may be held against a target. */
export function judge({ place, breaker, refused, paused }: Spot, nowMs: number): Standing {
  if (isOn(place.down, nowMs)) return 'out'
  const phase = phaseOf(breaker, nowMs)
  if (phase === 'open') return 'out'
  if (phase === 'half_open' && !wantsTrial(breaker, nowMs)) return 'doubtful'
  return isOn(place.refused, nowMs) || isOn(refused, nowMs) || isOn(paused, nowMs) ? 'doubtful' : 'well'
}

/** Writes down whether requests may pass without looking closer; called after every change. */
export function settle(spot: Spot, nowMs: number): void {
  spot.calm = spot.breaker.openUntilMs === null && !isOn(spot.refused, nowMs) && !isOn(spot.paused, nowMs)
}

/** When to look again at an upstream that is down: the prober has done so by then. */
const DOWN_RETRY_MS = { look: 2_000, probe: 10_000 }

/** Says why a target may not be called now; null where it may. */
export function toWhyOut({ place, breaker, lastFailure }: Spot, nowMs: number): ReturnType<Health['whyOut']> {
  const { down, upstream } = place
  if (isOn(down, nowMs)) {
    return { reason: `its upstream \`${upstream.id}\` is down: ${down.reason}`, retryAfterMs: DOWN_RETRY_MS[down.by] }
  }
  const waitMs = waitOf(breaker, nowMs)
  if (waitMs === 0) return null
  return {
    reason: `its last ${breaker.failuresInARow} calls to \`${upstream.id}\` failed, the last one with: ${lastFailure}`,
    // The trial of a half-open one may end at any moment.
    retryAfterMs: phaseOf(breaker, nowMs) === 'open' ? Math.max(1_000, waitMs) : 1_000,
  }
}

/** Tells all that is known of an upstream, each of its routes included. */
export function toUpstreamHealth(place: Place, models: Snapshot['models'], nowMs: number): UpstreamHealth {
  const { upstream, down, refused, answers, lastOkMs, lastError } = place
  const against = isOn(down, nowMs) ? down : isOn(refused, nowMs) ? refused : null
  const isDown = against !== null && against === down
  return {
    id: upstream.id,
    state: upstream.notReady !== null ? 'not_ready' : isDown ? 'down' : answers ? 'up' : 'unknown',
    reason: upstream.notReady ?? against?.reason ?? null,
    last_ok_ms: lastOkMs,
    last_error: lastError,
    targets: [...models.values()].flatMap((model) =>
      model.targets
        .filter((target) => target.upstream.id === upstream.id)
        .flatMap(({ upstreamModel }) => {
          const spot = place.spots.get(upstreamModel)
          return spot ? [toTargetHealth(model.facts.id, spot, nowMs)] : []
        }),
    ),
  }
}

function toTargetHealth(model: string, spot: Spot, nowMs: number): UpstreamHealth['targets'][number] {
  const { upstreamModel, breaker, refused, paused } = spot
  const phase = phaseOf(breaker, nowMs)
  const doubt = [refused, paused].find((against) => isOn(against, nowMs))
  return {
    model,
    upstream_model: upstreamModel,
    breaker: phase,
    failures_in_a_row: breaker.failuresInARow,
    retry_in_ms: phase === 'closed' ? null : Math.ceil(waitOf(breaker, nowMs)),
    ...(doubt ? { doubt: doubt.reason } : {}),
  }
}
