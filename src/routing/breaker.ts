/**
 * The circuit breaker of one target: it opens after failures in a row, and half-opens after a while with one live call
 * as its trial. Plain data and functions over it; time comes in, from a clock that never steps.
 */

const FAILURES_TO_OPEN = 5
export const OPEN_MS = 10_000
/**
 * So long is a half-open target for those who have no other. Then the next request tries it in its own place: a target
 * with a healthy neighbour would have no trial, ever.
 */
const SHUNNED_MS = 10_000
/** A trial that has said nothing for so long makes room for another: it may be a slow answer, or nobody's any more. */
const TRIAL_MS = 10_000

export interface Breaker {
  failuresInARow: number
  /** Null while it is closed. */
  openUntilMs: number | null
  /** When the trial was let through; null while there is none. */
  trialMs: number | null
}

export const createBreaker = (): Breaker => ({ failuresInARow: 0, openUntilMs: null, trialMs: null })

export function phaseOf({ openUntilMs }: Breaker, nowMs: number): 'closed' | 'open' | 'half_open' {
  if (openUntilMs === null) return 'closed'
  return nowMs < openUntilMs ? 'open' : 'half_open'
}

/** Whether a half-open one should have its trial now, whatever else there is. */
export const wantsTrial = ({ openUntilMs, trialMs }: Breaker, nowMs: number): boolean =>
  openUntilMs !== null && trialMs === null && nowMs >= openUntilMs + SHUNNED_MS

/** How long until a call may be let through, ms; 0 where it may be now. */
export function waitOf({ openUntilMs, trialMs }: Breaker, nowMs: number): number {
  if (openUntilMs === null) return 0
  const untilMs = trialMs === null ? openUntilMs : trialMs + TRIAL_MS
  return Math.max(0, untilMs - nowMs)
}

/** Lets a call through, or does not. In a half-open one it is the trial. */
export function enterBreaker(breaker: Breaker, nowMs: number): boolean {
  if (waitOf(breaker, nowMs) > 0) return false
  if (breaker.openUntilMs !== null) breaker.trialMs = nowMs
  return true
}

/** Counts a failure. Returns true where it has opened a closed one. */
export function failBreaker(breaker: Breaker, nowMs: number): boolean {
  breaker.failuresInARow++
  const phase = phaseOf(breaker, nowMs)
  // A call from before it opened says nothing new; only the trial's failure keeps it open.
  if (phase === 'open' || (phase === 'half_open' && breaker.trialMs === null)) return false
  if (phase === 'closed' && breaker.failuresInARow < FAILURES_TO_OPEN) return false
  breaker.openUntilMs = nowMs + OPEN_MS
  breaker.trialMs = null
  return phase === 'closed'
}

/** A call ended without a verdict: if it was the trial, another may have its place. */
export function releaseBreaker(breaker: Breaker): void {
  breaker.trialMs = null
}

/**
 * Closes it: an answer has begun. What failed before is remembered, so that the next failure opens it again.
 * Returns true where it was not closed.
 */
export function easeBreaker(breaker: Breaker): boolean {
  const was = breaker.openUntilMs !== null
  breaker.openUntilMs = null
  breaker.trialMs = null
  return was
}

/** Closes it and forgets all failures: a call went well. Returns true where it was not closed. */
export function closeBreaker(breaker: Breaker): boolean {
  breaker.failuresInARow = 0
  return easeBreaker(breaker)
}
