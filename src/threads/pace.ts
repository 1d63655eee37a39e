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
