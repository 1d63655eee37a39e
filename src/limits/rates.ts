/**
 * Rates and concurrency of a key, a team or an upstream: a rate limiter each, which checks first and counts then, so that the
 * caller can check several before anything is counted. Times are ms of a clock that never steps. Pure.
 */
import { keysOf } from '../domain/json.ts'
import type { Limits } from '../domain/limits.ts'

export const WINDOW_MS = 60_000
/** What comes within this time of each other is counted as one grain. */
const GRAIN_MS = 100

export type Unit = 'requests' | 'tokens'

/** What came within 100 ms of each other. Only its window changes it. */
interface Grain {
  readonly firstMs: number
  lastMs: number
  requests: number
  tokens: number
  /** Whether it has left the window: what is said of it from then on changes nothing. */
  gone: boolean
}

/**
 * What came in within the last 60 seconds: no minute, wherever it begins, sees more than a limit allows. What comes within
 * 100 ms of each other is one grain, so that a window has some 600 of them whatever the limit; a grain leaves with the last
 * of what it holds, so nothing ever leaves early.
 */
export class Window {
  readonly #grains: Grain[] = []
  readonly #sums = { requests: 0, tokens: 0 }

  /** Counts so much in. Returns the grain that it became part of. */
  add(requests: number, tokens: number, nowMs: number): Grain {
    this.#advance(nowMs)
    let grain = this.#grains.at(-1)
    // What is said to be older than the newest grain counts as that one does: it may stay longer, never leave early.
    const atMs = Math.max(nowMs, grain?.lastMs ?? nowMs)
    if (grain === undefined || atMs - grain.firstMs >= GRAIN_MS) {
      grain = { firstMs: atMs, lastMs: atMs, requests: 0, tokens: 0, gone: false }
      this.#grains.push(grain)
    }
    grain.lastMs = atMs
    this.correct(grain, requests, tokens)
    return grain
  }

  /** Changes what a grain holds by so much, up or down, as long as it is in the window. */
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

  /** Tells in how many ms at most `most` is left in the window: 0 for now, Infinity where `most` is below 0. */
  waitMs(unit: Unit, most: number, nowMs: number): number {
    this.#advance(nowMs)
    // Written so that a figure that is no number waits for ever, too.
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

  /** Tells in how many ms nothing is left in the window; 0 where nothing is. */
  emptyMs(unit: Unit, nowMs: number): number {
    this.#advance(nowMs)
    // From the newest: this is asked for every answer. One that was taken back holds nothing and is passed over.
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

/** A slot is released when an answer ends, and nobody knows when that is: this is a guess. */
const SLOT_RETRY_MS = 1_000

/** Which limit leaves no room, in the figures that a refusal names. */
export interface RateRefusal {
  on: keyof Limits
  limit: number
  used: number
  requested: number
  /** When the same would be admitted if nothing else came, in whole ms; null for what no waiting helps. */
  retryAfterMs: number | null
}

/** How a limit is held to. One that is added does not compile before it has its line here, and in each other table of limits. */
interface LimitRule {
  /** Whether it is known before a body is read whether there is room, or only once it is known what is asked for. */
  at: 'entry' | 'admission'
  /** The refusal of what has no room, or null. Changes nothing. */
  check(limit: number, limiter: RateLimiter, tokens: number, nowMs: number): RateRefusal | null
}

const RULES: Readonly<Record<keyof Limits, LimitRule>> = {
  concurrency: {
    at: 'entry',
    check(limit, { underWay }) {
      if (underWay < limit) return null
      const retryAfterMs = limit > 0 ? SLOT_RETRY_MS : null
      return { on: 'concurrency', limit, used: underWay, requested: 1, retryAfterMs }
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

  /** Checks whether a call of so many tokens has room: first what no waiting helps. Changes nothing. */
  callRefusal(limits: Limits, tokens: number, nowMs: number): RateRefusal | null {
    const byTokens = this.refusal('admission', limits, tokens, nowMs)
    if (byTokens?.retryAfterMs === null) return byTokens
    return this.refusal('entry', limits, 0, nowMs) ?? byTokens
  }

  /** Counts a request in, room or not. What it asks for in tokens may come later. */
  take(tokens: number, nowMs: number): Slot {
    this.underWay++
    return new Slot(this, this.window.add(1, tokens, nowMs), tokens)
  }

  /** Checks whether one more request has room at its entry, or so many tokens at its admission. Changes nothing. */
  refusal(at: LimitRule['at'], limits: Limits, tokens: number, nowMs: number): RateRefusal | null {
    for (const name of AT[at]) {
      const limit = limits[name]
      const refusal = limit === null ? null : RULES[name].check(limit, this, tokens, nowMs)
      if (refusal) return refusal
    }
    return null
  }
}

/** One that was let in. Once it has left or was cancelled, nothing changes any more. */
export class Slot {
  /** Where its tokens are counted. */
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

  /** Counts so many tokens as of now, which may be long after the request came. */
  spend(tokens: number, nowMs: number): void {
    this.#spends = this.limiter.window.add(0, tokens, nowMs)
    this.#counted = tokens
  }

  /** Makes what it counts for at least so many tokens. */
  raise(least: number): void {
    this.#count(Math.max(this.#counted, least))
  }

  /** Makes room for another; what it counts for stays. */
  release(): void {
    if (!this.#isReleased) this.limiter.underWay--
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
    if (!this.#isOver) this.limiter.window.correct(this.came, -1, 0)
    this.#isOver = true
  }

  #count(tokens: number): void {
    if (!this.#isOver) this.limiter.window.correct(this.#spends, 0, tokens - this.#counted)
    this.#counted = tokens
  }
}
