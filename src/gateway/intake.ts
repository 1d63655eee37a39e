/**
 * What is let in: how many requests may be under way at once, and how many bytes may be held in memory for them, by all keys
 * and by one. What is beyond is refused at once, so that an overload never becomes a queue. And when all of it has ended, for
 * a drain.
 */
import type { EndSignal } from '../domain/end-signal.ts'
import { type Decision, GatewayError } from '../domain/error.ts'
import type { Key } from '../domain/snapshot.ts'
import type { Fullness } from './fullness.ts'
import { RequestEnd } from './request-end.ts'
import { type Holding, Shares } from './shares.ts'

export interface LoadOptions {
  maxInFlight: number
  maxBufferedBytes: number
  /** Most of either that one key, or all keys of one owner, hold while others are there, from 0 to 1. */
  share: number
  /** A clock that never steps, ms. */
  nowMs(): number
  fullness?: Pick<Fullness, 'note'>
}

/** What is under way in one process. */
export class Load {
  readonly #maxInFlight: number
  readonly #maxBufferedBytes: number
  readonly #shares: Shares
  readonly #fullness: LoadOptions['fullness']
  /** Requests that were let in. */
  inFlight = 0
  /** Of those, the ones that were admitted: a drain waits for them. */
  readonly #admitted = new Set<Place>()
  /** Bytes of bodies and answers that are held for them. */
  bufferedBytes = 0
  isDraining = false
  #waiting: (() => void)[] = []

  constructor(options: LoadOptions) {
    this.#maxInFlight = options.maxInFlight
    this.#maxBufferedBytes = options.maxBufferedBytes
    this.#shares = new Shares(options)
    this.#fullness = options.fullness
  }

  /** Counts a request of a key in, or refuses it. */
  enter(key: Key): Decision<Place> {
    if (this.isDraining) return stopping()
    const most = this.#maxInFlight
    if (this.inFlight >= most) return this.#full(`${most} requests are under way, the most it takes`)
    const holding = this.#shares.of(key.shareId)
    const { places } = holding
    if (this.#shares.isTooMuch(holding, places + 1, this.inFlight + 1, most)) {
      return overShare(key, `has ${places} of the ${most} requests under way that this server takes: the others are`)
    }
    this.inFlight++
    holding.places++
    return new Place(this, holding, key)
  }

  /** Counts bytes in for a place. Returns the refusal where there is no room for them. */
  take(bytes: number, holding: Holding, place: Place): GatewayError | null {
    const most = this.#maxBufferedBytes
    const used = this.bufferedBytes + bytes
    const total = `${toMebibytes(most)} MiB`
    if (used > most) return this.#full(`requests under way hold ${toMebibytes(this.bufferedBytes)} of ${total}`)
    const willHold = holding.bytes + bytes
    if (this.#shares.isTooMuch(holding, willHold, used, most)) {
      holding.largest ??= place
      if (holding.largest !== place || willHold > most - used) {
        const held = `holds ${toMebibytes(holding.bytes)} of the ${total} of memory for requests under way`
        return overShare(place.key, `${held}: the rest is`)
      }
    }
    this.bufferedBytes = used
    holding.bytes += bytes
    return null
  }

  #full(why: string): GatewayError {
    this.#fullness?.note(why)
    return new GatewayError(
      'overloaded',
      `Tollgate is overloaded: ${why}. Nothing was done for this request; try again.`,
    )
  }

  /** How many were admitted and are under way. */
  get admitted(): number {
    return this.#admitted.size
  }

  /** Called by a place whose request is admitted. */
  admit(place: Place): void {
    this.#admitted.add(place)
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

  /** Ends what is under way: each client is told that the server stops. */
  stop(): void {
    for (const place of this.#admitted) place.stop()
  }

  /** Called by a place that is left. */
  leave(bytes: number, place: Place, holding: Holding): void {
    this.inFlight--
    this.bufferedBytes -= bytes
    holding.bytes -= bytes
    this.#shares.leave(holding)
    if (!this.#admitted.delete(place) || this.admitted > 0) return
    for (const resolve of this.#waiting) resolve()
    this.#waiting = []
  }
}

/** What one request takes of it, from its entry to its end. */
export class Place implements Disposable {
  readonly key: Key
  readonly #load: Load
  readonly #holding: Holding
  #bytes = 0
  /** Ends the request, once it was admitted. */
  #end: RequestEnd | null = null
  #isLeft = false

  constructor(load: Load, holding: Holding, key: Key) {
    this.#load = load
    this.#holding = holding
    this.key = key
  }

  /** Counts bytes in that the request keeps until it ends. Returns the refusal where there is no room for them. */
  readonly take = (bytes: number): GatewayError | null => {
    if (this.#isLeft) return null
    const overloaded = this.#load.take(bytes, this.#holding, this)
    if (overloaded === null) this.#bytes += bytes
    return overloaded
  }

  /**
   * Has a drain wait for the request's end. Returns the signal that ends it: it aborts when its client leaves, or with a GatewayError
   * as its reason when the drain waits no longer.
   */
  admit(client: AbortSignal): EndSignal {
    this.#load.admit(this)
    this.#end = new RequestEnd(client)
    return this.#end
  }

  /** Ends the request, if it was admitted. Nothing happens where its client has left already. */
  stop(): void {
    this.#end?.stop(stopped())
  }

  /** Gives all of it back. Idempotent. */
  [Symbol.dispose](): void {
    if (this.#isLeft) return
    this.#isLeft = true
    if (this.#holding.largest === this) this.#holding.largest = null
    this.#end = null
    this.#load.leave(this.#bytes, this, this.#holding)
  }
}

const toMebibytes = (bytes: number) => Math.round(bytes / 1024 ** 2)

export const stopping = () =>
  new GatewayError('overloaded', 'The server is stopping and takes no new requests. Try again.', {
    headers: { connection: 'close' },
  })

const stopped = () =>
  new GatewayError('stopped', 'The server stopped before the answer was complete. Try again.', {
    headers: { connection: 'close' },
  })

const overShare = ({ name, ownerId }: Key, held: string) =>
  new GatewayError(
    'over_share',
    `Key \`${name}\`${ownerId === null ? '' : ', together with the other keys of its owner,'} ${held} for other keys. Wait for an answer that is under way, and try again.`,
  )
