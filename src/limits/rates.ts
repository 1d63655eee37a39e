/**
 * Rate and concurrency limits. Checks don't count anything, so that several can be checked first. Times are monotonic,
 * in ms.
 */
import { keysOf } from '../domain/json.ts'
import type { Limits } from '../domain/limits.ts'

export const WINDOW_MS = 60_000
const GRAIN_MS = 100

export type Unit = 'requests' | 'tokens'

export interface Grain {
  readonly firstMs: number
  lastMs: number
  requests: number
  tokens: number
  /** True once the grain has left the window. Later corrections are ignored then. */
  gone: boolean
}

/**
 * Sliding 60-second window in grains of 100 ms. A grain expires with its last request, so no minute ever exceeds a
 * limit.
 */
export class Window {
  readonly #grains: Grain[] = []
  readonly #sums = { requests: 0, tokens: 0 }

  /** @param aheadMs time from now until the requests and tokens count. */
  add(requests: number, tokens: number, nowMs: number, aheadMs = 0): Grain {
    this.#advance(nowMs)
    let grain = this.#grains.at(-1)
    // An older time counts in the newest grain: it may expire late, never early.
    const atMs = Math.max(nowMs + aheadMs, grain?.lastMs ?? nowMs)
    if (grain === undefined || atMs - grain.firstMs >= GRAIN_MS) {
      grain = { firstMs: atMs, lastMs: atMs, requests: 0, tokens: 0, gone: false }
      this.#grains.push(grain)
    }
    grain.lastMs = atMs
    this.correct(grain, requests, tokens)
    return grain
  }

  correct(grain: Grain, requests: number, tokens: number): void {
    if (grain.gone) return
    grain.requests += requests
    grain.tokens += tokens
    this.#sums.requests += requests
    this.#sums.tokens += tokens
  }

  used(unit: Unit, nowMs: number): number {
    this.#advance(nowMs)
    return this.#sums[unit]
  }

  /** Ms until at most `most` is left in the window; Infinity if `most` is negative. */
  waitMs(unit: Unit, most: number, nowMs: number): number {
    this.#advance(nowMs)
    // Also true for NaN, which waits forever.
    if (!(most >= 0)) return Number.POSITIVE_INFINITY
    let left = this.#sums[unit]
    let waitMs = 0
    for (const grain of this.#grains) {
      if (left <= most) break
      left -= grain[unit]
      waitMs = grain.lastMs + WINDOW_MS - nowMs
    }
    return waitMs
  }

  emptyMs(unit: Unit, nowMs: number): number {
    this.#advance(nowMs)
    // Starts with the newest, since every response calls this. Canceled requests leave empty grains.
    for (let at = this.#grains.length - 1; at >= 0; at--) {
      const grain = this.#grains[at] as Grain
      if (grain[unit] > 0) return grain.lastMs + WINDOW_MS - nowMs
    }
    return 0
  }

  #advance(nowMs: number): void {
    let left = 0
    for (const grain of this.#grains) {
      if (grain.lastMs + WINDOW_MS > nowMs) break
      grain.gone = true
      this.#sums.requests -= grain.requests
      this.#sums.tokens -= grain.tokens
      left++
    }
    if (left > 0) this.#grains.splice(0, left)
  }
}

/** A guess: the end of a running request is unknown. */
const SLOT_RETRY_MS = 1_000

export interface RateRefusal {
  on: keyof Limits
  limit: number
  used: number
  requested: number
  /** Whole ms until the same request would be admitted without other requests; null if waiting won't help. */
  retryAfterMs: number | null
}

interface LimitRule {
  /** `entry`: checked before the body is read. `admission`: checked once the tokens are known. */
  at: 'entry' | 'admission'
  /** Changes nothing. */
  check(limit: number, limiter: RateLimiter, tokens: number, nowMs: number): RateRefusal | null
}

const RULES: Readonly<Record<keyof Limits, LimitRule>> = {
  concurrency: {
    at: 'entry',
    check(limit, { inFlight }) {
      if (inFlight < limit) return null
      const retryAfterMs = limit > 0 ? SLOT_RETRY_MS : null
      return { on: 'concurrency', limit, used: inFlight, requested: 1, retryAfterMs }
    },
  },
  rpm: {
    at: 'entry',
    check: (limit, { window }, _, nowMs) => checkRate('rpm', 'requests', window, limit, 1, nowMs),
  },
  tpm: {
    at: 'admission',
    check: (limit, { window }, tokens, nowMs) => checkRate('tpm', 'tokens', window, limit, tokens, nowMs),
  },
}
const NAMES = keysOf(RULES)
const AT = {
  entry: NAMES.filter((name) => RULES[name].at === 'entry'),
  admission: NAMES.filter((name) => RULES[name].at === 'admission'),
}

function checkRate(
  on: keyof Limits,
  unit: Unit,
  window: Window,
  limit: number,
  requested: number,
  nowMs: number,
): RateRefusal | null {
  const waitMs = window.waitMs(unit, limit - requested, nowMs)
  if (waitMs === 0) return null
  const retryAfterMs = waitMs === Number.POSITIVE_INFINITY ? null : Math.ceil(waitMs)
  return { on, limit, used: window.used(unit, nowMs), requested, retryAfterMs }
}

export function hasLimits(limits: Limits): boolean {
  for (const name of NAMES) if (limits[name] !== null) return true
  return false
}

export class RateLimiters {
  readonly #limiters = new Map<string, RateLimiter>()
  #sweptMs = Number.NEGATIVE_INFINITY

  /** Creates a limiter on demand. Only the holder of a slot may store the limiter. */
  of(id: string, nowMs: number): RateLimiter {
    if (nowMs - this.#sweptMs >= WINDOW_MS) this.#sweep(nowMs)
    let limiter = this.#limiters.get(id)
    if (limiter === undefined) {
      limiter = new RateLimiter()
      this.#limiters.set(id, limiter)
    }
    return limiter
  }

  /** Removes idle limiters. */
  #sweep(nowMs: number): void {
    this.#sweptMs = nowMs
    for (const [id, limiter] of this.#limiters) if (limiter.isIdle(nowMs)) this.#limiters.delete(id)
  }
}

export class RateLimiter {
  readonly window = new Window()
  /** Slots not released yet. */
  inFlight = 0

  isIdle(nowMs: number): boolean {
    const { window } = this
    return this.inFlight === 0 && window.used('requests', nowMs) === 0 && window.used('tokens', nowMs) === 0
  }

  /** Checks a call, first against limits for which waiting won't help. Changes nothing. */
  callRefusal(limits: Limits, tokens: number, nowMs: number): RateRefusal | null {
    const byTokens = this.refusal('admission', limits, tokens, nowMs)
    if (byTokens?.retryAfterMs === null) return byTokens
    return this.refusal('entry', limits, 0, nowMs) ?? byTokens
  }

  /** Counts a request even over the limit. Its tokens may be added later. */
  take(tokens: number, nowMs: number): Slot {
    this.inFlight++
    return new Slot(this, this.window.add(1, tokens, nowMs), tokens)
  }

  /** Changes nothing. */
  refusal(at: LimitRule['at'], limits: Limits, tokens: number, nowMs: number): RateRefusal | null {
    for (const name of AT[at]) {
      const limit = limits[name]
      const refusal = limit === null ? null : RULES[name].check(limit, this, tokens, nowMs)
      if (refusal) return refusal
    }
    return null
  }
}

/** Has no effect once left or canceled. */
export class Slot {
  /** The grain that counts its tokens. */
  #spends: Grain
  #counted: number
  #isReleased = false
  #isOver = false

  constructor(
    private readonly limiter: RateLimiter,
    private readonly came: Grain,
    tokens: number,
  ) {
    this.#spends = came
    this.#counted = tokens
  }

  /** Counts tokens from now, which may be long after the request arrived. */
  spend(tokens: number, nowMs: number): void {
    this.#spends = this.limiter.window.add(0, tokens, nowMs)
    this.#counted = tokens
  }

  raise(least: number): void {
    this.#count(Math.max(this.#counted, least))
  }

  /** Frees the concurrency slot; the counts stay. */
  release(): void {
    if (!this.#isReleased) this.limiter.inFlight--
    this.#isReleased = true
  }

  /** `tokens` is the actual use; null keeps the estimate. */
  leave(tokens: number | null): void {
    this.release()
    if (tokens !== null) this.#count(tokens)
    this.#isOver = true
  }

  /** Undoes the slot and its counts. */
  cancel(): void {
    this.release()
    this.#count(0)
    if (!this.#isOver) this.limiter.window.correct(this.came, -1, 0)
    this.#isOver = true
  }

  #count(tokens: number): void {
    if (!this.#isOver) this.limiter.window.correct(this.#spends, 0, tokens - this.#counted)
    this.#counted = tokens
  }
}
