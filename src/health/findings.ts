/** What was found out about an upstream as a whole: written down, and logged where it is a change. */

import type { Log } from '../log.ts'
import type { Readiness } from '../upstreams/backend.ts'
import type { Found, Place, Spot } from './state.ts'

export interface FindingsDeps {
  /** A clock that never steps. */
  nowMs(): number
  /** Wall clock: for what people read. */
  wallMs(): number
  log?: Pick<Log, 'info' | 'warn'>
}

/** What was refused is tried again after this long: it may be repaired, and nobody would tell. */
const REFUSED_MS = 60_000
/** So long a call that went well counts for more than what a free question meets with. */
const PROVEN_MS = 60_000
/** A little longer than the prober takes to come back to an upstream that is down: if it never does, calls find out. */
const DOWN_MS = 20_000

export function createFindings({ nowMs, wallMs, log }: FindingsDeps) {
  /** It answers: it is not down, whatever else there is. */
  const raise = (place: Place): void => {
    if (place.down) log?.info('an upstream is up again', { upstream: place.upstream.id })
    place.down = null
    place.unreached = false
    place.answers = true
    place.calm = isCalm(place)
  }

  const putDown = (place: Place, reason: string, by: 'look' | 'probe'): void => {
    const { id, baseUrl } = place.upstream
    if (!place.down) log?.warn('an upstream is down', { upstream: id, host: URL.parse(baseUrl ?? '')?.host, reason })
    place.down = { reason, untilMs: nowMs() + DOWN_MS, by }
    place.lastError = { message: reason, at_ms: wallMs() }
    place.answers = false
    place.calm = false
  }

  /** Holds against it what a probe met with, or nothing any more. What calls found out stays. */
  const find = (place: Place, found: Found | null): void => {
    const { id } = place.upstream
    if (found && found.state !== place.found?.state)
      log?.warn('an upstream is marked', { upstream: id, reason: found.reason })
    if (!found && place.found) log?.info('an upstream is no longer marked', { upstream: id })
    place.found = found && { ...found, untilMs: nowMs() + REFUSED_MS }
    place.calm = isCalm(place)
  }

  /** Drops what calls found out. */
  const accept = (owner: Place | Spot, upstream: string, model?: string): void => {
    if (owner.refused) log?.info('an upstream is no longer marked', { upstream, model })
    owner.refused = null
  }

  return {
    accept,
    /** A call was refused. */
    refuse(owner: Place | Spot, reason: string, upstream: string, model?: string): void {
      if (!owner.refused) log?.warn('an upstream is marked', { upstream, model, reason })
      owner.refused = { reason, untilMs: nowMs() + REFUSED_MS }
      owner.calm = false
    },
    /** A call went well: there is nothing against it. */
    prove(place: Place): void {
      place.workedMs = nowMs()
      place.lastOkMs = wallMs()
      if (place.calm && place.answers === true && !place.unreached) return
      accept(place, place.upstream.id)
      find(place, null)
      raise(place)
    },
    /** Takes what a look found, which knows of connections only. */
    look(place: Place, readiness: Readiness): void {
      if ('reason' in readiness) {
        // What answers is given a second look: one may be late for the network's sake, or ours.
        const isFirst = readiness.state === 'doubtful' && place.answers === true && !place.unreached
        if (!isFirst) putDown(place, readiness.reason, 'look')
        place.unreached = true
      } else if (place.down?.by === 'probe') place.unreached = false
      else raise(place)
    },
    /** Takes what a probe found. */
    ask(place: Place, readiness: Readiness): void {
      if (readiness.state === 'down') {
        putDown(place, readiness.reason, 'probe')
        return
      }
      if (readiness.state !== 'doubtful') raise(place)
      if ('reason' in readiness) {
        if (nowMs() - place.workedMs >= PROVEN_MS) find(place, readiness)
        return
      }
      // Any answer ends a doubt, only a welcome a refusal.
      if (readiness.state === 'ready' || place.found?.state === 'doubtful') find(place, null)
    },
  }
}

const isCalm = ({ down, refused, found }: Place) => down === null && refused === null && found === null
