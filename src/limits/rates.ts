/**
 * Rates and concurrency of a key or an upstream: a rate limiter each, which checks first and counts then, so that the
 * caller can check several before anything is counted. Rates go by an exact sliding window of 60 s. Used by `limiter.ts`
 * alone. Times are ms of a clock that never steps. Pure.
 */
import type { Limits } from '../domain/settings.ts'

export const WINDOW_MS = 60_000
/** What comes within this time of each other is counted as one entry. */
const GRAIN_MS = 100
/** A slot is released when an answer ends, and nobody knows when that is: this is a guess. */
const SLOT_RETRY_MS = 1_000

export type Unit = 'requests' | 'tokens'

/** Which limit leaves no room, in the figures that a refusal names. */
export interface RateRefusal {
  on: Unit | 'concurrency'
  limit: number
  used: number
  requested: number
  /** When the same would be admitted if nothing else came, in whole ms; null for what no waiting helps. */
  retryAfterMs: number | null
}

/** One that was let in. Once it has left or was cancelled, nothing changes any more. */
export interface Slot {
  /** Makes what it counts for at least so many tokens. */
  raise(tokens: number): void
  /** Makes room for another; what it counts for stays. */
  release(): void
  /** Releases it. `tokens` is what was really used; null leaves it at what was counted. */
  leave(tokens: number | null): void
  /** Releases it, as if it had never been taken. */
  cancel(): void
}

export interface RateLimiter {
  /** Checks whether there is room, and changes nothing. */
  refusal(limits: Limits, tokens: number, nowMs: number): RateRefusal | null
  /** Counts one in, room or not. */
  take(tokens: number, nowMs: number): Slot
  readonly window: Pick<Window, 'add' | 'used' | 'emptyMs'>
  /** Whether nothing is under way and nothing is remembered. */
  isIdle(nowMs: number): boolean
}

/** Whether there is any limit at all. */
export const hasLimits = ({ requestsPerMinute, tokensPerMinute, concurrency }: Limits) =>
  requestsPerMinute !== null || tokensPerMinute !== null || concurrency !== null

/** Makes the rate limiters of all keys, or of all upstreams. */
export function createRateLimiters() {
  const limiters = new Map<string, RateLimiter>()
  let sweptMs = Number.NEGATIVE_INFINITY

  return {
    /** That of a key or an upstream, made where there is none. It may only be kept by who has a slot of it. */
    of(id: string, nowMs: number): RateLimiter {
      if (nowMs - sweptMs >= WINDOW_MS) {
        // Whoever has nothing under way and nothing in its window is forgotten, so that idle ones do not pile up.
        sweptMs = nowMs
        for (const [id, limiter] of limiters) if (limiter.isIdle(nowMs)) limiters.delete(id)
      }
      const known = limiters.get(id)
      if (known !== undefined) return known
      const limiter = createRateLimiter()
      limiters.set(id, limiter)
      return limiter
    },
  }
}

function createRateLimiter(): RateLimiter {
  const window = createWindow()
  let underWay = 0

  return {
    window,
    isIdle: (nowMs) => underWay === 0 && window.used('requests', nowMs) === 0,

    refusal({ requestsPerMinute, tokensPerMinute, concurrency }, tokens, nowMs) {
      const waitMs = (unit: Unit, limit: number | null, asked: number) =>
        limit === null ? 0 : window.waitMs(unit, limit - asked, nowMs)
      const requestsMs = waitMs('requests', requestsPerMinute, 1)
      const tokensMs = waitMs('tokens', tokensPerMinute, tokens)
      /** Whoever waits for one of the rates is told when both have room. */
      const waitsMs = Math.max(requestsMs, tokensMs)
      const full = (unit: Unit, limit: number | null, requested: number): RateRefusal => ({
        on: unit,
        limit: limit ?? 0,
        used: window.used(unit, nowMs),
        requested,
        retryAfterMs: waitsMs === Number.POSITIVE_INFINITY ? null : Math.ceil(waitsMs),
      })
      // First what no waiting helps: whoever is told to wait should not wait in vain.
      if (tokensMs === Number.POSITIVE_INFINITY) return full('tokens', tokensPerMinute, tokens)
      if (concurrency !== null && underWay >= concurrency) {
        const retryAfterMs = concurrency > 0 ? SLOT_RETRY_MS : null
        return { on: 'concurrency', limit: concurrency, used: underWay, requested: 1, retryAfterMs }
      }
      if (requestsMs > 0) return full('requests', requestsPerMinute, 1)
      return tokensMs > 0 ? full('tokens', tokensPerMinute, tokens) : null
    },

    take(tokens, nowMs) {
      const entry = window.add(tokens, nowMs)
      let counted = tokens
      let isReleased = false
      let isOver = false
      underWay++
      const release = () => {
        if (!isReleased) underWay--
        isReleased = true
      }
      const count = (requests: number, really: number) => {
        if (!isOver) window.correct(entry, requests, really - counted)
        counted = really
      }
      return {
        raise: (least) => count(0, Math.max(counted, least)),
        release,
        leave(really) {
          release()
          if (really !== null) count(0, really)
          isOver = true
        },
        cancel() {
          release()
          count(-1, 0)
          isOver = true
        },
      }
    },
  }
}

/** What came within one grain. Only its window changes it. */
interface Entry {
  readonly firstMs: number
  lastMs: number
  requests: number
  tokens: number
  /** Whether it has left the window: what is said of it from then on changes nothing. */
  gone: boolean
}

interface Window {
  /** Counts one request. Returns the entry that it became part of. */
  add(tokens: number, nowMs: number): Entry
  /** Changes what an entry holds by so much, up or down, as long as it is in the window. */
  correct(entry: Entry, requests: number, tokens: number): void
  used(unit: Unit, nowMs: number): number
  /** Tells in how many ms at most `most` is left in the window: 0 for now, Infinity where `most` is below 0. */
  waitMs(unit: Unit, most: number, nowMs: number): number
  /** Tells in how many ms nothing is left in the window; 0 where nothing is. */
  emptyMs(unit: Unit, nowMs: number): number
}

/**
 * What came in within the last 60 seconds: no minute, wherever it begins, sees more than a limit allows. What comes within
 * 100 ms of each other is one entry, so that a window has some 600 of them whatever the limit; an entry leaves with the last
 * of what it holds, so nothing ever leaves early.
 */
export function createWindow(): Window {
  /** Oldest first. */
  const entries: Entry[] = []
  const sums = { requests: 0, tokens: 0 }

  const advance = (nowMs: number) => {
    let left = 0
    for (const entry of entries) {
      if (entry.lastMs + WINDOW_MS > nowMs) break
      entry.gone = true
      sums.requests -= entry.requests
      sums.tokens -= entry.tokens
      left++
    }
    if (left > 0) entries.splice(0, left)
  }

  const correct = (entry: Entry, requests: number, tokens: number) => {
    if (entry.gone) return
    entry.requests += requests
    entry.tokens += tokens
    sums.requests += requests
    sums.tokens += tokens
  }

  return {
    add(tokens, nowMs) {
      advance(nowMs)
      let entry = entries.at(-1)
      // What is said to be older than the newest entry counts as that one does: it may stay longer, never leave early.
      const atMs = Math.max(nowMs, entry?.lastMs ?? nowMs)
      if (entry === undefined || atMs - entry.firstMs >= GRAIN_MS) {
        entry = { firstMs: atMs, lastMs: atMs, requests: 0, tokens: 0, gone: false }
        entries.push(entry)
      }
      entry.lastMs = atMs
      correct(entry, 1, tokens)
      return entry
    },
    correct,
    used(unit, nowMs) {
      advance(nowMs)
      return sums[unit]
    },
    waitMs(unit, most, nowMs) {
      advance(nowMs)
      // Written so that a figure that is no number waits for ever, too.
      if (!(most >= 0)) return Number.POSITIVE_INFINITY
      let left = sums[unit]
      let waitMs = 0
      for (const entry of entries) {
        if (left <= most) break
        left -= entry[unit]
        waitMs = entry.lastMs + WINDOW_MS - nowMs
      }
      return waitMs
    },
    emptyMs(unit, nowMs) {
      advance(nowMs)
      // From the newest: this is asked for every answer. One that was taken back holds nothing and is passed over.
      const last = entries.findLast((entry) => entry[unit] > 0)
      return last === undefined ? 0 : last.lastMs + WINDOW_MS - nowMs
    },
  }
}
