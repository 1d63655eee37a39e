/** Runs work that the event loop pays for, at a bounded share of its time, however often it is asked for. Pure but for its clock. */

/** A run is followed by so many times its own length of rest: it takes at most a tenth of the loop. */
const REST = 9
/** After a long one, such as the first read of thousands of keys, changes still get their turn. */
const MOST_REST_MS = 1_000

interface PaceClock {
  /** A clock that never steps, ms. */
  monotonicMs(): number
  sleep(ms: number): Promise<unknown>
}

/**
 * @returns asks for a run that begins after the call, and resolves or rejects with it. All who ask before a run begins share it. After a
 * rest it begins at once.
 */
export function createPaced(work: () => Promise<void>, { monotonicMs, sleep }: PaceClock): () => Promise<void> {
  let running: Promise<void> = Promise.resolve()
  let next: Promise<void> | null = null
  let restedMs = Number.NEGATIVE_INFINITY

  const run = async () => {
    const startMs = monotonicMs()
    try {
      await work()
    } finally {
      const endMs = monotonicMs()
      restedMs = endMs + Math.min(MOST_REST_MS, (endMs - startMs) * REST)
    }
  }
  const begin = async () => {
    await running.catch(() => {})
    const restMs = restedMs - monotonicMs()
    if (restMs > 0) await sleep(restMs)
    next = null
    running = run()
    return running
  }

  return () => {
    next ??= begin()
    return next
  }
}
