/**
 * What is under way: how many requests may be at once, and how many bytes may be held in memory for them. What is beyond is
 * refused at once with 503, so that an overload never becomes a queue. And when all of it has ended, for a drain.
 */
import { allow, type Decision, GatewayError, refuse } from '../domain/error.ts'

interface LoadOptions {
  maxInFlight: number
  maxBufferedBytes: number
}

/** The memory that one request holds, counted from its entry to its end. */
export interface MemoryReservation {
  /** Counts bytes in that the request keeps until it ends. Returns the refusal where there is no room for them. */
  take(bytes: number): GatewayError | null
  /** Gives its bytes and its place back. Idempotent. */
  release(): void
}

export interface LoadShedder {
  /** Counts a request in, or refuses it. */
  enter(): Decision<MemoryReservation>
  inFlight(): number
  bufferedBytes(): number
}

export function createLoadShedder({ maxInFlight, maxBufferedBytes }: LoadOptions): LoadShedder {
  let inFlight = 0
  let buffered = 0
  return {
    enter() {
      if (inFlight >= maxInFlight) return refuse(overloaded(`${maxInFlight} requests are under way, the most it takes`))
      inFlight++
      let held = 0
      let released = false
      return allow({
        take(bytes) {
          if (buffered + bytes > maxBufferedBytes) {
            return overloaded(
              `requests under way hold ${toMebibytes(buffered)} of ${toMebibytes(maxBufferedBytes)} MiB`,
            )
          }
          if (released) return null
          held += bytes
          buffered += bytes
          return null
        },
        release() {
          if (released) return
          released = true
          inFlight--
          buffered -= held
        },
      })
    },
    inFlight: () => inFlight,
    bufferedBytes: () => buffered,
  }
}

const toMebibytes = (bytes: number) => Math.round(bytes / 1024 ** 2)

const overloaded = (why: string) =>
  new GatewayError('overloaded', `Tollgate is overloaded: ${why}. Nothing was done for this request; try again.`)

export interface InFlightTracker {
  /** Counts a request in. Returns `done`, which counts it out; idempotent. */
  begin(): () => void
  count(): number
  /** From now on no new request is let in. */
  drain(): void
  draining(): boolean
  /** Resolves true when nothing is under way any more, or false after `ms`. */
  ended(ms: number): Promise<boolean>
}

export function createInFlightTracker(): InFlightTracker {
  let count = 0
  let draining = false
  let waiting: (() => void)[] = []

  return {
    begin() {
      count++
      let ended = false
      return () => {
        if (ended) return
        ended = true
        count--
        if (count > 0) return
        for (const resolve of waiting) resolve()
        waiting = []
      }
    },
    count: () => count,
    drain() {
      draining = true
    },
    draining: () => draining,
    async ended(ms) {
      if (count === 0) return true
      const last = Promise.withResolvers<boolean>()
      waiting.push(() => last.resolve(true))
      const timer = setTimeout(() => last.resolve(false), ms)
      try {
        return await last.promise
      } finally {
        clearTimeout(timer)
      }
    },
  }
}
