/** What was found out about an upstream as a whole: written down, and logged where it is a change. */
import type { Log } from '../log.ts'
import type { Place, Spot } from './place.ts'

export interface FindingsDeps {
  /** A clock that never steps. */
  nowMs(): number
  /** Wall clock: for what people read. */
  wallMs(): number
  log?: Pick<Log, 'info' | 'warn'>
}

/** What was refused is tried again after this long: it may be repaired, and nobody would tell. */
const REFUSED_MS = 60_000
/** A little longer than the prober takes to come back to an upstream that is down: if it never does, calls find out. */
const DOWN_MS = 20_000

export function createFindings({ nowMs, wallMs, log }: FindingsDeps) {
  return {
    /** It answers: it is not down, whatever else there is. */
    raise(place: Place): void {
      if (place.down) log?.info('an upstream is up again', { upstream: place.upstream.id })
      place.down = null
      place.unreached = false
      place.answers = true
      place.calm = place.refused === null
    },
    putDown(place: Place, reason: string, by: 'look' | 'probe'): void {
      if (!place.down) log?.warn('an upstream is down', { upstream: place.upstream.id, reason })
      place.down = { reason, untilMs: nowMs() + DOWN_MS, by }
      place.lastError = { message: reason, at_ms: wallMs() }
      place.unreached ||= by === 'look'
      place.answers = false
      place.calm = false
    },
    refuse(owner: Place | Spot, reason: string, upstream: string, model?: string): void {
      if (!owner.refused) log?.warn('an upstream is marked', { upstream, model, reason })
      owner.refused = { reason, untilMs: nowMs() + REFUSED_MS }
      owner.calm = false
    },
    accept(owner: Place | Spot, upstream: string, model?: string): void {
      if (owner.refused) log?.info('an upstream is no longer marked', { upstream, model })
      owner.refused = null
    },
  }
}
