/** Counts what is under way, so that a drain knows when the last answer has left. */

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
