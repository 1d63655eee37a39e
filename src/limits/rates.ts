/**
 * Rates and concurrency of a key or an upstream: a rate limiter each, which checks first and counts then, so that the
 * caller can check several before anything is counted. Used by `limiter.ts` alone. Pure.
 */
import type { Limits } from '../domain/settings.ts'
import { createWindow, type Unit, WINDOW_MS, type Window } from './window.ts'

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

interface RateLimiters {
  /** That of a key or an upstream, made where there is none. It may only be kept by who has a slot of it. */
  of(id: string, nowMs: number): RateLimiter
}

/** Whether there is any limit at all. */
export const hasLimits = ({ requestsPerMinute, tokensPerMinute, concurrency }: Limits) =>
  requestsPerMinute !== null || tokensPerMinute !== null || concurrency !== null

export function createRateLimiters(): RateLimiters {
  const limiters = new Map<string, RateLimiter>()
  let sweptMs = Number.NEGATIVE_INFINITY

  /** Forgets whoever has nothing under way and nothing in its window, so that idle ones do not pile up. */
  const sweep = (nowMs: number) => {
    sweptMs = nowMs
    for (const [id, limiter] of limiters) if (limiter.isIdle(nowMs)) limiters.delete(id)
  }

  return {
    of(id, nowMs) {
      if (nowMs - sweptMs >= WINDOW_MS) sweep(nowMs)
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
