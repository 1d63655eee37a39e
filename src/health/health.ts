/**
 * How the targets are doing: a circuit breaker for each, what the probes saw of each upstream, and the last error in
 * words. Fed by every call and by the prober; read by the order of targets, `is_ready`, `/readyz` and the control
 * socket. Keeps everything in memory; the clock comes in.
 */

import type { UpstreamError } from '../domain/error.ts'
import type { Snapshot, Target, Upstream } from '../domain/snapshot.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { toRefusal } from '../upstreams/refusal.ts'
import {
  closeBreaker,
  easeBreaker,
  enterBreaker,
  failBreaker,
  giveUpTrial,
  hurryBreaker,
  releaseBreaker,
} from './breaker.ts'
import { createFindings, type FindingsDeps } from './findings.ts'
import { isFailure, isOurs, isUnreached, toLastError, toWords } from './messages.ts'
import { isOn, judge, noteCalm, toUpstreamHealth, toWhyOut } from './standing.ts'
import { createPlaces, type Spot } from './state.ts'

/**
 * How a target stands for the next request: `well`; `doubtful` = tried after all that are well (its credential or model
 * was refused, a free question met with trouble, its provider wants a pause, its breaker is half open); `out` = not
 * tried at all.
 */
export type Standing = 'well' | 'doubtful' | 'out'

/**
 * How a call goes, seen from the upstream: `begun` = its answer has reached the commit point; `ok` = and came to its
 * end; `given_up` was ended by us or the client, and says nothing of it; `not_made` was kept back by a limit of ours.
 */
export type CallNews = 'begun' | 'ok' | 'given_up' | 'not_made' | UpstreamError

export interface Health {
  standing(target: Target): Standing
  /** Claims the target for a call: false where it is out, or where the one trial of a half-open breaker is taken. */
  enter(target: Target): boolean
  report(target: Target, news: CallNews): void
  /** Why a target is out, in words for clients, and after how many ms to look again; null where it is not. */
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
  /**
   * `refused` = it refuses its credential or account; `doubtful` = it was late or had an error where it was asked for free;
   * `unknown` = nothing was tried yet. Only what is `down` or `not_ready` is not called at all.
   */
  state: 'up' | 'doubtful' | 'refused' | 'down' | 'unknown' | 'not_ready'
  /** Why it is neither `up` nor `unknown`, in words. */
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
  const { prove, refuse, accept, look, ask } = createFindings(deps)
  const places = createPlaces()
  let models: Snapshot['models'] = new Map()

  const tellClosed = ({ place, upstreamModel }: Spot) =>
    log?.info('a breaker closed', { upstream: place.upstream.id, model: upstreamModel })

  const begin = (spot: Spot): void => {
    if (!easeBreaker(spot.breaker)) return
    tellClosed(spot)
    noteCalm(spot, nowMs())
  }

  const succeed = (spot: Spot): void => {
    const { place, breaker, upstreamModel } = spot
    prove(place)
    if (closeBreaker(breaker)) tellClosed(spot)
    if (spot.calm) return
    accept(spot, place.upstream.id, upstreamModel)
    noteCalm(spot, nowMs())
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
      if (news === 'begun') return begin(spot)
      if (news === 'ok') return succeed(spot)
      if (news === 'not_made') return releaseBreaker(spot.breaker)
      if (news === 'given_up' || news.kind === 'aborted' || isOurs(news)) return giveUpTrial(spot.breaker)
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
      const wasDown = place.down !== null
      if (by === 'look') look(place, readiness)
      else ask(place, readiness)
      if (!wasDown || place.down !== null) return
      // What opened its breakers is over: the next calls are their trials.
      for (const { breaker } of place.spots.values()) hurryBreaker(breaker, nowMs())
    },
    unreached: () => [...places.all()].filter(({ unreached }) => unreached).map(({ upstream }) => upstream),
    renew(snapshot) {
      models = snapshot.models
      places.renew(snapshot)
    },
    states: () => [...places.all()].map((place) => toUpstreamHealth(place, models, nowMs())),
  }
}
