/** Where the calls of a request stand in the time that it took. Pure. */

export interface Timed {
  created_ms: number
  /** Null while it is under way. */
  duration_ms: number | null
  first_token_ms: number | null
}

/** In percent of the whole. */
export interface CallBar {
  start: number
  /** Until the first token; all of it where there was none. */
  waiting: number
  /** From then on. */
  answering: number
}

/** A call that took no time is still to be seen. */
const LEAST = 0.5

/** A bar for each call, and how long all of it took, or has taken, in ms. */
export function toCallBars(request: Timed, calls: readonly Timed[], nowMs: number): { ms: number; bars: CallBar[] } {
  const endOf = ({ created_ms: start, duration_ms: took }: Timed) => (took === null ? nowMs : start + took)
  const startMs = request.created_ms
  const ms = Math.max(1, ...[request, ...calls].map((one) => endOf(one) - startMs))
  const toPercent = (part: number) => (Math.max(0, part) / ms) * 100
  const bars = calls.map((call) => {
    const took = endOf(call) - call.created_ms
    const waited = Math.min(call.first_token_ms ?? took, took)
    const start = Math.min(toPercent(call.created_ms - startMs), 100 - LEAST)
    const waiting = Math.min(Math.max(LEAST, toPercent(waited)), 100 - start)
    return { start, waiting, answering: Math.min(toPercent(took - waited), 100 - start - waiting) }
  })
  return { ms, bars }
}
