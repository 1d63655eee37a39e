/** How what is held against an upstream and a target adds up, for the next request and for people. Pure. */
import type { Snapshot } from '../domain/snapshot.ts'
import { phaseOf, waitOf, wantsTrial } from './breaker.ts'
import type { Health, Standing, UpstreamHealth } from './health.ts'
import type { Against, Place, Spot } from './state.ts'

/** Whether it still holds. */
export const isOn = (against: Against | null, nowMs: number): against is Against =>
  against !== null && nowMs < against.untilMs

/** Looks at everything that may be held against a target. */
export function judge({ place, breaker, refused, paused }: Spot, nowMs: number): Standing {
  if (isOn(place.down, nowMs)) return 'out'
  const phase = phaseOf(breaker, nowMs)
  if (phase === 'open') return 'out'
  if (phase === 'half_open' && !wantsTrial(breaker, nowMs)) return 'doubtful'
  return [place.refused, place.found, refused, paused].some((against) => isOn(against, nowMs)) ? 'doubtful' : 'well'
}

/** Writes down whether requests may pass without looking closer; called after every change for the better. */
export function noteCalm(spot: Spot, nowMs: number): void {
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
  const { upstream, lastOkMs, lastError } = place
  return {
    id: upstream.id,
    ...toState(place, nowMs),
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

function toState(place: Place, nowMs: number): Pick<UpstreamHealth, 'state' | 'reason'> {
  const { upstream, down, refused, found, answers } = place
  if (upstream.notReady !== null) return { state: 'not_ready', reason: upstream.notReady }
  if (isOn(down, nowMs)) return { state: 'down', reason: down.reason }
  if (isOn(refused, nowMs)) return { state: 'refused', reason: refused.reason }
  if (isOn(found, nowMs)) return { state: found.state, reason: found.reason }
  return { state: answers ? 'up' : 'unknown', reason: null }
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
