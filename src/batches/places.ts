/** How many lines run at once. Live requests come first, and keys take turns. */
import { Turns } from '../threads/fair-queue.ts'

/** While the server is otherwise idle. */
const MAX_LINES = 8
const MAX_LINES_BUSY = 2
const LOOK_MS = 250

export interface ServerLoad {
  /** Use of the server's most used limit by requests in flight, from 0 to 1. */
  used(): number
  /** Calls queued for an upstream. */
  waiting(): number
}

interface Waiter {
  owner: string
  resolve(release: () => void): void
}

export class LinePlaces {
  #inUse = 0
  #timer: ReturnType<typeof setInterval> | null = null
  readonly #turns = new Turns<Waiter>()

  constructor(private readonly load: ServerLoad) {}

  /** Null once `signal` aborts. */
  take(owner: string, signal: AbortSignal): Promise<(() => void) | null> {
    if (signal.aborted) return Promise.resolve(null)
    return new Promise((resolve) => {
      const waiter: Waiter = {
        owner,
        resolve: (release) => {
          signal.removeEventListener('abort', leave)
          resolve(release)
        },
      }
      const leave = () => {
        this.#turns.delete(owner, waiter)
        resolve(null)
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#turns.add(owner, waiter)
      this.#letIn()
    })
  }

  /** A live request never waits for more lines than this. */
  #most(): number {
    if (this.load.waiting() > 0) return 0
    const used = this.load.used()
    return used > 0.5 ? 0 : used > 0.125 ? MAX_LINES_BUSY : MAX_LINES
  }

  #letIn(): void {
    while (this.#turns.first() !== undefined && this.#inUse < this.#most()) {
      this.#inUse++
      const release = () => {
        this.#inUse--
        this.#letIn()
      }
      this.#turns.next()?.resolve(release)
    }
    const isIdle = this.#turns.first() === undefined
    if (isIdle && this.#timer !== null) {
      clearInterval(this.#timer)
      this.#timer = null
    } else if (!isIdle) this.#timer ??= setInterval(() => this.#letIn(), LOOK_MS).unref()
  }
}
