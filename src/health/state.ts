/**
 * What `health.ts` remembers of each upstream and of each target on it, and where it finds that again: quickly for a
 * target it has seen, and over a change of configuration for all that did not change.
 */

import type { Snapshot, Target, Upstream } from '../domain/snapshot.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { type Breaker, createBreaker } from './breaker.ts'

/** Something that is held against a place until it passes by itself. */
export interface Against {
  reason: string
  untilMs: number
}

/** What a probe may hold against an upstream that is not down. */
export type Found = Extract<Readiness, { state: 'refused' | 'doubtful' }>

/** An upstream. */
export interface Place {
  upstream: Upstream
  /** Nothing is held against it: all that a request has to read. */
  calm: boolean
  /** `by`: what found it so. A look that connects does not disprove what only a probe sees, such as a bad certificate. */
  down: (Against & { by: 'look' | 'probe' }) | null
  /** A call was refused for its credential or account: what a probe does not disprove. */
  refused: Against | null
  /** What the last probe held against it. */
  found: (Found & Against) | null
  /** It could not be connected to, or kept silent, when that was last tried. */
  unreached: boolean
  /** Whether it answered when it was last tried; null while nothing was. */
  answers: boolean | null
  /** When a call went well last, on the clock that never steps. */
  workedMs: number
  /** The same for people. */
  lastOkMs: number | null
  lastError: { message: string; at_ms: number } | null
  /** By the upstream's own name of the model. */
  spots: Map<string, Spot>
}

/** A target: one model of an upstream, whatever models of ours lead to it. */
export interface Spot {
  place: Place
  upstreamModel: string
  calm: boolean
  breaker: Breaker
  /** Its model or its address was refused. */
  refused: Against | null
  /** Its provider asked for a pause. */
  paused: Against | null
  /** What made its breaker count last, in words. */
  lastFailure: string
}

export interface Places {
  of(upstream: Upstream): Place
  spot(target: Target): Spot
  all(): Iterable<Place>
  /** Keeps what did not change, and forgets the rest. */
  renew(snapshot: Snapshot): void
}

export function createPlaces(): Places {
  let places = new Map<string, Place>()
  /** The quick way: targets are objects that live as long as their snapshot. */
  const found = new WeakMap<Target, Spot>()

  const of = (upstream: Upstream): Place => {
    const known = places.get(upstream.id)
    // What a call under an old configuration finds out is no news of the present one.
    if (known) return isSame(known.upstream, upstream) ? known : createPlace(upstream)
    const place = createPlace(upstream)
    places.set(upstream.id, place)
    return place
  }

  return {
    of,
    spot(target) {
      const known = found.get(target)
      if (known) return known
      const spot = spotOf(of(target.upstream), target.upstreamModel)
      found.set(target, spot)
      return spot
    },
    all: () => places.values(),
    renew(snapshot) {
      const next = new Map<string, Place>()
      for (const upstream of snapshot.upstreams.values()) {
        const known = places.get(upstream.id)
        const place = known && isSame(known.upstream, upstream) ? known : createPlace(upstream)
        place.upstream = upstream
        next.set(upstream.id, place)
      }
      const routed = new Set<Spot>()
      for (const { targets } of snapshot.models.values()) {
        for (const { upstream, upstreamModel } of targets) {
          const place = next.get(upstream.id)
          if (place) routed.add(spotOf(place, upstreamModel))
        }
      }
      for (const { spots } of next.values()) for (const [name, spot] of spots) if (!routed.has(spot)) spots.delete(name)
      places = next
    },
  }
}

/** Whether a call to one would be a call to the other. */
export const isSame = (a: Upstream, b: Upstream): boolean =>
  a.baseUrl === b.baseUrl && a.credential === b.credential && a.dialect === b.dialect

const createPlace = (upstream: Upstream): Place => ({
  upstream,
  calm: true,
  down: null,
  refused: null,
  found: null,
  unreached: false,
  answers: null,
  workedMs: Number.NEGATIVE_INFINITY,
  lastOkMs: null,
  lastError: null,
  spots: new Map(),
})

function spotOf(place: Place, upstreamModel: string): Spot {
  const known = place.spots.get(upstreamModel)
  if (known) return known
  const breaker = createBreaker()
  const spot: Spot = { place, upstreamModel, calm: true, breaker, refused: null, paused: null, lastFailure: '' }
  place.spots.set(upstreamModel, spot)
  return spot
}
