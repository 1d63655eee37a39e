/**
 * How the targets are doing: a circuit breaker for each, what the probes saw of each upstream, and the last error in
 * words. Fed by every call and by the prober; read by the order of targets, `is_ready`, `/readyz` and the control
 * socket. Keeps everything in memory; the clock comes in.
 */

import type { Readiness } from '../backends/backend.ts'
import type { UpstreamError } from '../error.ts'
import type { Snapshot, Target, Upstream } from '../store/snapshot.ts'
import { toRefusal } from '../wire/refusal.ts'
import { closeBreaker, easeBreaker, enterBreaker, failBreaker, releaseBreaker } from './breaker.ts'
import { createFindings, type FindingsDeps } from './findings.ts'
import { isFailure, isOurs, isUnreached, toLastError, toWords } from './health-words.ts'
import { createPlaces, type Spot } from './place.ts'
import { isOn, judge, settle, toUpstreamHealth, toWhyOut } from './standing.ts'

/**
 * How a target stands for the next request: `well`; `doubtful` = tried after all that are well (its credential or model
 * was refused, its provider asked for a pause, its breaker is half open); `out` = not tried at all.
 */
export type Standing = 'well' | 'doubtful' | 'out'

/**
 * How a call goes, seen from the upstream: `begun` = its answer has reached the commit point, so that it lives; `ok` = and
 * came to its end; `given_up` was ended by us or the client, and says nothing of it.
 */
export type CallNews = 'begun' | 'ok' | 'given_up' | UpstreamError

export interface Health {
  standing(target: Target): Standing
  /** Claims the target for a call: false where it is out, or where the one trial of a half-open breaker is taken. */
  enter(target: Target): boolean
  report(target: Target, news: CallNews): void
  /** Why a target is out, in words, and after how many ms to look again; null where it is not. */
  whyOut(target: Target): { reason: string; retryAfterMs: number } | null
  /** What a readiness probe found, or a look of the TCP prober, which knows of connections only. */
  probed(upstream: Upstream, readiness: Readiness, by?: 'look' | 'probe'): void
  /** Upstreams that could not be reached last: the TCP prober watches them. */
  unreached(): Upstream[]
  /** Takes over a new configuration: what is gone or has another address or credential is forgotten. */
  renew(snapshot: Snapshot): void
  /** Everything that is known, for the control socket. */
  states(): UpstreamHealth[]
}

export interface UpstreamHealth {
  id: string
  /** `unknown`: nothing was tried yet. */
  state: 'up' | 'down' | 'unknown' | 'not_ready'
  /** Why it is not `up`, or refused, in words. */
  reason: string | null
  last_ok_ms: number | null
  last_error: { message: string; at_ms: number } | null
  targets: {
    model: string
    upstream_model: string
    breaker: 'closed' | 'open' | 'half_open'
    failures_in_a_row: number
    /** Until the breaker half-opens; null where it is closed. */
    retry_in_ms: number | null
    /** Why it comes after others, in words, where it does: its model was refused, or its provider wants a pause. */
    doubt?: string
  }[]
}

export interface HealthDeps extends FindingsDeps {
  /** An upstream could not be reached just now: the TCP prober wants to know. */
  onUnreached?(): void
}

/** No provider gets a longer pause, whatever it asks for. */
const MAX_PAUSE_MS = 60_000

/**
 * Builds the account of all upstreams; nothing is held against anyone at first. A target that is well costs a request one
 * look into a map. The log has a line for each change, never for each call.
 */
export function createHealth(deps: HealthDeps): Health {
  const { nowMs, wallMs, log, onUnreached } = deps
  const { raise, putDown, refuse, accept } = createFindings(deps)
  const places = createPlaces()
  let models: Snapshot['models'] = new Map()

  const succeed = (spot: Spot, closeOrEase: typeof closeBreaker): void => {
    const { place, breaker, upstreamModel } = spot
    const { id } = place.upstream
    place.lastOkMs = wallMs()
    if (!place.calm || place.answers !== true) {
      accept(place, id)
      raise(place)
    }
    if (closeOrEase(breaker)) log?.info('a breaker closed', { upstream: id, model: upstreamModel })
    if (spot.calm) return
    accept(spot, id, upstreamModel)
    settle(spot, nowMs())
  }

  const fail = (spot: Spot, error: UpstreamError): void => {
    const { place, breaker, upstreamModel: model } = spot
    spot.lastFailure = toWords(error)
    if (!place.unreached && isUnreached(error) && place.upstream.baseUrl !== null) {
      place.unreached = true
      place.answers = false
      onUnreached?.()
    }
    if (!failBreaker(breaker, nowMs())) return
    spot.calm = false
    log?.warn('a breaker opened', { upstream: place.upstream.id, model, reason: spot.lastFailure })
  }

  /** Takes a 4xx: an answer, whatever it says. */
  const mark = (spot: Spot, { status, retryAfterMs }: UpstreamError): void => {
    const { place, upstreamModel } = spot
    releaseBreaker(spot.breaker)
    if (status === 429 && retryAfterMs !== null) {
      spot.paused = {
        reason: 'its provider limits our rate',
        untilMs: nowMs() + Math.min(retryAfterMs, MAX_PAUSE_MS),
      }
      spot.calm = false
    }
    const refusal = toRefusal(status ?? 0)
    const reason = `it answered ${status}: ${refusal?.why}`
    if (refusal?.of === 'upstream') refuse(place, reason, place.upstream.id)
    if (refusal?.of === 'target') refuse(spot, reason, place.upstream.id, upstreamModel)
  }

  return {
    standing(target) {
      const spot = places.spot(target)
      return spot.calm && spot.place.calm ? 'well' : judge(spot, nowMs())
    },
    enter(target) {
      const spot = places.spot(target)
      if (spot.calm && spot.place.calm) return true
      const now = nowMs()
      return !isOn(spot.place.down, now) && enterBreaker(spot.breaker, now)
    },
    report(target, news) {
      const spot = places.spot(target)
      if (news === 'begun') return succeed(spot, easeBreaker)
      if (news === 'ok') return succeed(spot, closeBreaker)
      if (news === 'given_up' || news.kind === 'aborted' || isOurs(news)) return releaseBreaker(spot.breaker)
      const counts = isFailure(news)
      // What an upstream says about the request itself is no error of its own.
      if (counts || news.status === 429 || toRefusal(news.status ?? 0)) {
        spot.place.lastError = { message: toLastError(news), at_ms: wallMs() }
      }
      if (counts) fail(spot, news)
      else mark(spot, news)
    },
    whyOut: (target) => toWhyOut(places.spot(target), nowMs()),
    probed(upstream, readiness, by = 'probe') {
      const place = places.of(upstream)
      if (readiness.state === 'down') return putDown(place, readiness.reason, by)
      // A connection does not disprove a server that answers with errors.
      if (by === 'look' && place.down?.by === 'probe') {
        place.unreached = false
        return
      }
      if (readiness.state === 'ready') {
        accept(place, upstream.id)
        for (const spot of place.spots.values()) {
          accept(spot, upstream.id, spot.upstreamModel)
          settle(spot, nowMs())
        }
      }
      raise(place)
      if (readiness.state === 'refused') refuse(place, readiness.reason, upstream.id)
    },
    unreached: () => [...places.all()].filter(({ unreached }) => unreached).map(({ upstream }) => upstream),
    renew(snapshot) {
      models = snapshot.models
      places.renew(snapshot)
    },
    states: () => [...places.all()].map((place) => toUpstreamHealth(place, models, nowMs())),
  }
}
