/**
 * The circuit breaker of one target: it opens after failures in a row, and half-opens after a while with one live call
 * as its trial. Plain data and functions over it; time comes in, from a clock that never steps.
 */

const FAILURES_TO_OPEN = 5
const OPEN_MS = 10_000
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
  /** When the trial of a half-open one was let through; null while there is none. */
  trialMs: number | null
  /** Whether a trial of this half-open one was given up already. */
  isGivenUp: boolean
}

export const createBreaker = (): Breaker => ({
  failuresInARow: 0,
  openUntilMs: null,
  trialMs: null,
  isGivenUp: false,
})

export function phaseOf({ openUntilMs }: Breaker, nowMs: number): 'closed' | 'open' | 'half_open' {
  if (openUntilMs === null) return 'closed'
  return nowMs < openUntilMs ? 'open' : 'half_open'
}

/** How long until a call may be let through, ms; 0 where it may be now. */
export function waitOf({ openUntilMs, trialMs }: Breaker, nowMs: number): number {
  if (openUntilMs === null) return 0
  const untilMs = trialMs === null ? openUntilMs : trialMs + TRIAL_MS
  return Math.max(0, untilMs - nowMs)
}

/** Whether a half-open one should have its trial now, whatever else there is. */
export const wantsTrial = (breaker: Breaker, nowMs: number): boolean =>
  breaker.openUntilMs !== null && nowMs >= breaker.openUntilMs + SHUNNED_MS && waitOf(breaker, nowMs) === 0

/** What it opened for is over: the next call is its trial, in its own place. */
export function hurryBreaker(breaker: Breaker, nowMs: number): void {
  if (breaker.openUntilMs !== null) breaker.openUntilMs = Math.min(breaker.openUntilMs, nowMs - SHUNNED_MS)
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
  breaker.isGivenUp = false
  return phase === 'closed'
}

/** A call was answered, though not with what it wanted: if that was the trial, another may have its place. */
export function releaseBreaker(breaker: Breaker): void {
  breaker.trialMs = null
}

/**
 * A call was given up: if that was the trial, another may have its place. Nobody knows whether it was, so this happens
 * once: many calls from before that end with their clients would let as many trials in.
 */
export function giveUpTrial(breaker: Breaker): void {
  if (breaker.trialMs === null || breaker.isGivenUp) return
  breaker.trialMs = null
  breaker.isGivenUp = true
}

/**
 * Closes a half-open one whose trial has begun to answer. What failed before is remembered, so that the next failure
 * opens it again. Returns true where that is a change: an answer of which the failure is known already closes nothing.
 */
export const easeBreaker = (breaker: Breaker): boolean => breaker.trialMs !== null && close(breaker)

/** Closes it and forgets all failures: a call went well. Returns true where it was not closed. */
export function closeBreaker(breaker: Breaker): boolean {
  breaker.failuresInARow = 0
  return close(breaker)
}

function close(breaker: Breaker): boolean {
  const was = breaker.openUntilMs !== null
  breaker.openUntilMs = null
  breaker.trialMs = null
  breaker.isGivenUp = false
  return was
}
