/**
 * Runs work that blocks the event loop for some ms and can't go to a thread (transferring its result would take as
 * long): round-robin across owners (keys), with pauses.
 */

import { Turns } from './fair-queue.ts'

/** In durations of the work. */
const PAUSE = 3
/** Pauses may be this much shorter, so that small pieces don't wait for each other. */
const GRACE_MS = 10

export interface PaceOptions {
  /** Monotonic clock, ms. */
  nowMs?(): number
  after?(ms: number, then: () => void): void
}

export class Pace {
  readonly #nowMs: () => number
  readonly #after: (ms: number, then: () => void) => void
  readonly #turns = new Turns<{ run(): void; elsewhereMs: number }>()
  /** When all pauses are over. */
  #freeMs = Number.NEGATIVE_INFINITY
  #isPausing = false

  constructor({ nowMs = () => performance.now(), after = (ms, then) => setTimeout(then, ms) }: PaceOptions = {}) {
    this.#nowMs = nowMs
    this.#after = after
  }

  /** @param elsewhereMs further cost on the event loop, such as reading the result. */
  run<T>(owner: string, work: () => T, elsewhereMs = 0): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const run = () => {
      try {
        resolve(work())
      } catch (error) {
        reject(error)
      }
    }
    this.#turns.add(owner, { run, elsewhereMs })
    if (!this.#isPausing) this.#next()
    return promise
  }

  #next(): void {
    this.#isPausing = false
    const beginMs = this.#nowMs()
    const waitMs = this.#freeMs - beginMs
    if (waitMs > GRACE_MS) {
      this.#isPausing = true
      this.#after(waitMs - GRACE_MS, () => this.#next())
      return
    }
    const work = this.#turns.next()
    if (work === undefined) return
    work.run()
    const endMs = this.#nowMs()
    this.#freeMs = Math.max(this.#freeMs, endMs) + PAUSE * (endMs - beginMs + work.elsewhereMs)
    this.#next()
  }
}

/** Pause after a run, in run durations: at most a tenth of the event loop is used. */
const REST = 9
/** Bounds the pause after a long run, such as the first read of thousands of keys. */
const MAX_REST_MS = 1_000

interface PaceClock {
  /** Monotonic clock, ms. */
  monotonicMs(): number
  sleep(ms: number): Promise<unknown>
}

/**
 * @returns requests a run that begins after the call, shared by all callers until it begins; resolves or rejects with
 * it. Starts at once after the pause.
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
      restedMs = endMs + Math.min(MAX_REST_MS, (endMs - startMs) * REST)
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
