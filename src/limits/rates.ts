/**
 * Rates and concurrency of whoever has them, a key or an upstream: a gate each, which looks first and counts then, so
 * that the caller can look at several before anything is counted. Pure.
 */
import type { Limits } from '../domain/settings.ts'
import { createWindow, type Unit, WINDOW_MS, type Window } from './window.ts'

/** A place frees when an answer ends, and nobody knows when that is: this is a guess. */
const PLACE_RETRY_MS = 1_000

/** Which limit leaves no room, in the figures that a refusal names. */
export interface RateRefusal {
  on: Unit | 'concurrency'
  limit: number
  used: number
  requested: number
  /** When the same would be admitted if nothing else came, in whole ms; null for what no waiting helps. */
  retryAfterMs: number | null
}

/** One that was let in. `leave` and `cancel` are called once, one of them. */
export interface Place {
  /** Makes what it counts for at least so many tokens. */
  raise(tokens: number): void
  /** Frees the place, and nothing else yet. */
  free(): void
  /** Frees the place. `tokens` is what was really used; null leaves it at what was counted. */
  leave(tokens: number | null): void
  /** Frees the place and takes back that it ever came. */
  cancel(): void
}

export interface Gate {
  /** Looks whether there is room, and changes nothing. */
  refusal(limits: Limits, tokens: number, nowMs: number): RateRefusal | null
  /** Counts one in, room or not. */
  enter(tokens: number, nowMs: number): Place
  readonly window: Pick<Window, 'add' | 'used' | 'emptyMs'>
  /** Whether nothing is under way and nothing is remembered. */
  isIdle(nowMs: number): boolean
}

interface Gates {
  /** The gate of a key or an upstream, made where there is none. It may only be kept by who has a place. */
  of(id: string, nowMs: number): Gate
}

/** Whether there is anything to hold somebody to. */
export const hasLimits = ({ requestsPerMinute, tokensPerMinute, concurrency }: Limits) =>
  requestsPerMinute !== null || tokensPerMinute !== null || concurrency !== null

export function createGates(): Gates {
  const gates = new Map<string, Gate>()
  let sweptMs = Number.NEGATIVE_INFINITY

  /** Forgets whoever has nothing under way and nothing in its window, so that idle ones do not pile up. */
  const sweep = (nowMs: number) => {
    sweptMs = nowMs
    for (const [id, gate] of gates) if (gate.isIdle(nowMs)) gates.delete(id)
  }

  return {
    of(id, nowMs) {
      if (nowMs - sweptMs >= WINDOW_MS) sweep(nowMs)
      let gate = gates.get(id)
      if (gate === undefined) {
        gate = createGate()
        gates.set(id, gate)
      }
      return gate
    },
  }
}

function createGate(): Gate {
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
        const retryAfterMs = concurrency > 0 ? PLACE_RETRY_MS : null
        return { on: 'concurrency', limit: concurrency, used: underWay, requested: 1, retryAfterMs }
      }
      if (requestsMs > 0) return full('requests', requestsPerMinute, 1)
      return tokensMs > 0 ? full('tokens', tokensPerMinute, tokens) : null
    },

    enter(tokens, nowMs) {
      const entry = window.add(tokens, nowMs)
      let counted = tokens
      let isFree = false
      underWay++
      const free = () => {
        if (!isFree) underWay--
        isFree = true
      }
      const count = (really: number) => {
        window.correct(entry, 0, really - counted)
        counted = really
      }
      return {
        raise: (least) => count(Math.max(counted, least)),
        free,
        leave(really) {
          free()
          if (really !== null) count(really)
        },
        cancel() {
          free()
          window.correct(entry, -1, -counted)
        },
      }
    },
  }
}
