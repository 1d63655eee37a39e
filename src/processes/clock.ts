/** Time, as what waits here sees it: tests have one of their own. */
export interface Clock {
  /** Never steps, ms. */
  nowMs(): number
  /** Calls back after so many ms. Returns what takes that back. */
  after(ms: number, then: () => void): () => void
}

/** Its timers keep no process alive. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  after(ms, then) {
    const timer = setTimeout(then, ms).unref()
    return () => clearTimeout(timer)
  },
}

export const sleep = (clock: Clock, ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve))
