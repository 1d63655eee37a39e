/**
 * Work that holds the event loop for some ms and cannot go to a thread, since handing its result over would take as long:
 * one piece at a time, owners (keys) in turn, and after each a pause of three times what it took. So whatever else goes on
 * finds the loop free for most of the time, however much of such work one owner has.
 */

import { Turns } from './fair-queue.ts'

/** Of what a piece took. */
const PAUSE = 3
/** So much of a pause is let go: little pieces need not wait for each other. */
const GRACE_MS = 10

export interface PaceOptions {
  /** A clock that never steps, ms. */
  nowMs?(): number
  after?(ms: number, then: () => void): void
}

export class Pace {
  readonly #nowMs: () => number
  readonly #after: (ms: number, then: () => void) => void
  readonly #turns = new Turns<() => void>()
  /** When all pauses are over. */
  #freeMs = Number.NEGATIVE_INFINITY
  #isPausing = false

  constructor({ nowMs = () => performance.now(), after = (ms, then) => setTimeout(then, ms) }: PaceOptions = {}) {
    this.#nowMs = nowMs
    this.#after = after
  }

  /** Does a piece of work once it is its owner's turn. Resolves with its result, rejects with what it throws. */
  run<T>(owner: string, work: () => T): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    this.#turns.add(owner, () => {
      try {
        resolve(work())
      } catch (error) {
        reject(error)
      }
    })
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
    work()
    const endMs = this.#nowMs()
    this.#freeMs = Math.max(this.#freeMs, endMs) + PAUSE * (endMs - beginMs)
    this.#next()
  }
}

/** A run is followed by so many times its own length of rest: it takes at most a tenth of the loop. */
const REST = 9
/** After a long one, such as the first read of thousands of keys, changes still get their turn. */
const MAX_REST_MS = 1_000

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
