/**
 * Rates and concurrency of a key, a team or an upstream: a rate limiter each, which checks first and counts then, so that the
 * caller can check several before anything is counted. Rates go by a sliding window (`window.ts`). Used by `local-limiter.ts` and
 * `limited-request.ts`. Times are ms of a clock that never steps. Pure.
 */
import type { Limits } from '../domain/limits.ts'
import { type Grain, type Unit, WINDOW_MS, Window } from './window.ts'

/** A slot is released when an answer ends, and nobody knows when that is: this is a guess. */
const SLOT_RETRY_MS = 1_000

/** Which limit leaves no room, in the figures that a refusal names. */
export interface RateRefusal {
  on: Unit | 'concurrency'
  limit: number
  used: number
  requested: number
  /** When the same would be admitted if nothing else came, in whole ms; null for what no waiting helps. */
  retryAfterMs: number | null
}

/** Whether there is any limit at all. */
export const hasLimits = ({ requestsPerMinute, tokensPerMinute, concurrency }: Limits) =>
  requestsPerMinute !== null || tokensPerMinute !== null || concurrency !== null

/** The rate limiters of all keys, of all teams, or of all upstreams. */
export class RateLimiters {
  readonly #limiters = new Map<string, RateLimiter>()
  #sweptMs = Number.NEGATIVE_INFINITY

  /** That of a key, a team or an upstream, made where there is none. It may only be kept by who has a slot of it. */
  of(id: string, nowMs: number): RateLimiter {
    if (nowMs - this.#sweptMs >= WINDOW_MS) this.#sweep(nowMs)
    let limiter = this.#limiters.get(id)
    if (limiter === undefined) {
      limiter = new RateLimiter()
      this.#limiters.set(id, limiter)
    }
    return limiter
  }

  /** Whoever has nothing under way and nothing in its window is forgotten, so that idle ones do not pile up. */
  #sweep(nowMs: number): void {
    this.#sweptMs = nowMs
    for (const [id, limiter] of this.#limiters) if (limiter.isIdle(nowMs)) this.#limiters.delete(id)
  }
}

export class RateLimiter {
  readonly window = new Window()
  /** How many were let in and have not released their slot. */
  underWay = 0

  /** Whether nothing is under way and nothing is remembered. */
  isIdle(nowMs: number): boolean {
    const { window } = this
    return this.underWay === 0 && window.used('requests', nowMs) === 0 && window.used('tokens', nowMs) === 0
  }

  /** Checks whether one more request has room, whatever it asks for. Changes nothing. */
  requestRefusal({ requestsPerMinute, concurrency }: Limits, nowMs: number): RateRefusal | null {
    if (concurrency !== null && this.underWay >= concurrency) {
      const retryAfterMs = concurrency > 0 ? SLOT_RETRY_MS : null
      return { on: 'concurrency', limit: concurrency, used: this.underWay, requested: 1, retryAfterMs }
    }
    return this.#refusal('requests', requestsPerMinute, 1, nowMs)
  }

  /** Checks whether there is room for so many tokens. Changes nothing. */
  tokenRefusal({ tokensPerMinute }: Limits, tokens: number, nowMs: number): RateRefusal | null {
    return this.#refusal('tokens', tokensPerMinute, tokens, nowMs)
  }

  /** Checks whether a call of so many tokens has room: first what no waiting helps. Changes nothing. */
  callRefusal(limits: Limits, tokens: number, nowMs: number): RateRefusal | null {
    const byTokens = this.tokenRefusal(limits, tokens, nowMs)
    if (byTokens?.retryAfterMs === null) return byTokens
    return this.requestRefusal(limits, nowMs) ?? byTokens
  }

  /** Counts a request in, room or not. What it asks for in tokens may come later. */
  take(tokens: number, nowMs: number): Slot {
    this.underWay++
    return new Slot(this, this.window.add(1, tokens, nowMs), tokens)
  }

  #refusal(on: Unit, limit: number | null, requested: number, nowMs: number): RateRefusal | null {
    if (limit === null) return null
    const waitMs = this.window.waitMs(on, limit - requested, nowMs)
    if (waitMs === 0) return null
    const retryAfterMs = waitMs === Number.POSITIVE_INFINITY ? null : Math.ceil(waitMs)
    return { on, limit, used: this.window.used(on, nowMs), requested, retryAfterMs }
  }
}

/** One that was let in. Once it has left or was cancelled, nothing changes any more. */
export class Slot {
  readonly #limiter: RateLimiter
  readonly #came: Grain
  /** Where its tokens are counted. */
  #spends: Grain
  #counted: number
  #isReleased = false
  #isOver = false

  constructor(limiter: RateLimiter, came: Grain, tokens: number) {
    this.#limiter = limiter
    this.#came = came
    this.#spends = came
    this.#counted = tokens
  }

  /** Counts so many tokens as of now, which may be long after the request came. */
  spend(tokens: number, nowMs: number): void {
    this.#spends = this.#limiter.window.add(0, tokens, nowMs)
    this.#counted = tokens
  }

  /** Makes what it counts for at least so many tokens. */
  raise(least: number): void {
    this.#count(Math.max(this.#counted, least))
  }

  /** Makes room for another; what it counts for stays. */
  release(): void {
    if (!this.#isReleased) this.#limiter.underWay--
    this.#isReleased = true
  }

  /** Releases it. `tokens` is what was really used; null leaves it at what was counted. */
  leave(tokens: number | null): void {
    this.release()
    if (tokens !== null) this.#count(tokens)
    this.#isOver = true
  }

  /** Releases it, as if it had never been taken. */
  cancel(): void {
    this.release()
    this.#count(0)
    if (!this.#isOver) this.#limiter.window.correct(this.#came, -1, 0)
    this.#isOver = true
  }

  #count(tokens: number): void {
    if (!this.#isOver) this.#limiter.window.correct(this.#spends, 0, tokens - this.#counted)
    this.#counted = tokens
  }
}
