/**
 * What is let in: how many requests may be under way at once, and how many bytes may be held in memory for them. What is
 * beyond is refused at once with 503, so that an overload never becomes a queue. And when all of it has ended, for a drain.
 */
import { type Decision, GatewayError } from '../domain/error.ts'

/** What is under way in one process. */
export class Load {
  readonly #maxInFlight: number
  readonly #maxBufferedBytes: number
  /** Requests that were let in. */
  inFlight = 0
  /** Of those, the ones that were admitted: a drain waits for them. */
  admitted = 0
  /** Bytes of bodies and answers that are held for them. */
  bufferedBytes = 0
  isDraining = false
  #waiting: (() => void)[] = []

  constructor({ maxInFlight, maxBufferedBytes }: { maxInFlight: number; maxBufferedBytes: number }) {
    this.#maxInFlight = maxInFlight
    this.#maxBufferedBytes = maxBufferedBytes
  }

  /** Counts a request in, or refuses it. */
  enter(): Decision<Place> {
    const most = this.#maxInFlight
    if (this.inFlight >= most) return overloaded(`${most} requests are under way, the most it takes`)
    this.inFlight++
    return new Place(this)
  }

  /** Counts bytes in. Returns the refusal where there is no room for them. */
  take(bytes: number): GatewayError | null {
    const most = this.#maxBufferedBytes
    if (this.bufferedBytes + bytes > most) {
      return overloaded(`requests under way hold ${toMebibytes(this.bufferedBytes)} of ${toMebibytes(most)} MiB`)
    }
    this.bufferedBytes += bytes
    return null
  }

  /** From now on no new request is admitted. */
  drain(): void {
    this.isDraining = true
  }

  /** Resolves true when nothing that was admitted is under way any more, or false after `ms`. */
  async ended(ms: number): Promise<boolean> {
    if (this.admitted === 0) return true
    const last = Promise.withResolvers<boolean>()
    this.#waiting.push(() => last.resolve(true))
    const timer = setTimeout(() => last.resolve(false), ms)
    try {
      return await last.promise
    } finally {
      clearTimeout(timer)
    }
  }

  /** Called by a place that is left. */
  leave(bytes: number, wasAdmitted: boolean): void {
    this.inFlight--
    this.bufferedBytes -= bytes
    if (!wasAdmitted || --this.admitted > 0) return
    for (const resolve of this.#waiting) resolve()
    this.#waiting = []
  }
}

/** What one request takes of it, from its entry to its end. */
export class Place implements Disposable {
  readonly #load: Load
  #bytes = 0
  #isAdmitted = false
  #isLeft = false

  constructor(load: Load) {
    this.#load = load
  }

  /** Counts bytes in that the request keeps until it ends. Returns the refusal where there is no room for them. */
  readonly take = (bytes: number): GatewayError | null => {
    if (this.#isLeft) return null
    const overloaded = this.#load.take(bytes)
    if (overloaded === null) this.#bytes += bytes
    return overloaded
  }

  /** Has a drain wait for the request's end. */
  admit(): void {
    this.#isAdmitted = true
    this.#load.admitted++
  }

  /** Gives all of it back. Idempotent. */
  [Symbol.dispose](): void {
    if (this.#isLeft) return
    this.#isLeft = true
    this.#load.leave(this.#bytes, this.#isAdmitted)
  }
}

const toMebibytes = (bytes: number) => Math.round(bytes / 1024 ** 2)

const overloaded = (why: string) =>
  new GatewayError('overloaded', `Tollgate is overloaded: ${why}. Nothing was done for this request; try again.`)
