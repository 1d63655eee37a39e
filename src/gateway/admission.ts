/**
 * What is let in: how many requests may be under way at once, and how many bytes may be held in memory for them, by all keys
 * and by one. What is beyond is refused at once, so that an overload never becomes a queue. And when all of it has ended, for
 * a drain.
 */
import type { EndReason, EndSignal } from '../domain/end-signal.ts'
import { type Decision, GatewayError } from '../domain/error.ts'
import type { Key } from '../domain/snapshot.ts'

interface LoadOptions {
  maxInFlight: number
  maxBufferedBytes: number
  /** Most of either that one key, or all keys of one owner, hold while others are there, from 0 to 1. */
  share: number
  /** A clock that never steps, ms. */
  nowMs(): number
  overload?: Pick<OverloadState, 'note'>
}

/** A key that held a slot so recently counts as being there. */
const RECENT_MS = 60_000

/** What a key, or all keys of one owner, hold. */
interface Holding {
  slots: number
  bytes: number
  /** When it gave its last slot back. */
  leftMs: number
  /** The one slot of it that may hold more bytes than the share allows: what is large has to fit somewhere. */
  largest: object | null
}

/**
 * While others are there, or much is taken, a key (or all keys of one owner) holds its share at most; and once less than a share is left,
 * the same part of that as is left of a share. So whoever comes next finds room, also where dozens of keys take all they can.
 */
export class Load {
  /** Requests that were let in. */
  inFlight = 0
  /** Bytes of bodies and answers that are held for them. */
  bufferedBytes = 0
  isDraining = false
  /** Of the requests, the ones that were admitted: a drain waits for them. */
  readonly #admitted = new Set<AdmissionSlot>()
  readonly #holdings = new Map<string, Holding>()
  #sweptMs = Number.NEGATIVE_INFINITY
  #waiting: (() => void)[] = []

  constructor(private readonly options: LoadOptions) {}

  /** Counts a request of a key in, or refuses it. */
  enter(key: Key): Decision<AdmissionSlot> {
    if (this.isDraining) return stopping()
    const most = this.options.maxInFlight
    if (this.inFlight >= most) return this.#full(`${most} requests are under way, the most it takes`)
    const holding = this.#holdings.get(key.quotaId) ?? this.#begin(key.quotaId)
    const { slots } = holding
    if (this.#isTooMuch(holding, slots + 1, this.inFlight + 1, most)) {
      return overShare(key, `has ${slots} of the ${most} requests under way that this server takes: the others are`)
    }
    this.inFlight++
    holding.slots++
    return new AdmissionSlot(this, holding, key)
  }

  /** Counts bytes in for a slot. Returns the refusal where there is no room for them. */
  take(bytes: number, holding: Holding, slot: AdmissionSlot): GatewayError | null {
    const most = this.options.maxBufferedBytes
    const used = this.bufferedBytes + bytes
    const total = `${toMebibytes(most)} MiB`
    if (used > most) return this.#full(`requests under way hold ${toMebibytes(this.bufferedBytes)} of ${total}`)
    const willHold = holding.bytes + bytes
    if (this.#isTooMuch(holding, willHold, used, most)) {
      holding.largest ??= slot
      if (holding.largest !== slot || willHold > most - used) {
        const held = `holds ${toMebibytes(holding.bytes)} of the ${total} of memory for requests under way`
        return overShare(slot.key, `${held}: the rest is`)
      }
    }
    this.bufferedBytes = used
    holding.bytes += bytes
    return null
  }

  /** How many were admitted and are under way. */
  get admitted(): number {
    return this.#admitted.size
  }

  admit(slot: AdmissionSlot): void {
    this.#admitted.add(slot)
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
    for (const slot of this.#admitted) slot.stop()
  }

  leave(bytes: number, slot: AdmissionSlot, holding: Holding): void {
    this.inFlight--
    this.bufferedBytes -= bytes
    holding.bytes -= bytes
    if (--holding.slots === 0) holding.leftMs = this.options.nowMs()
    if (!this.#admitted.delete(slot) || this.admitted > 0) return
    for (const resolve of this.#waiting) resolve()
    this.#waiting = []
  }

  #full(why: string): GatewayError {
    this.options.overload?.note(why)
    return new GatewayError(
      'overloaded',
      `Tollgate is overloaded: ${why}. Nothing was done for this request; try again.`,
    )
  }

  /** Whoever has not been there for a while is forgotten first, so that idle keys do not pile up. */
  #begin(quotaId: string): Holding {
    const sinceMs = this.options.nowMs() - RECENT_MS
    if (sinceMs >= this.#sweptMs) {
      this.#sweptMs = sinceMs + RECENT_MS
      for (const [id, { slots, leftMs }] of this.#holdings)
        if (slots === 0 && leftMs <= sinceMs) this.#holdings.delete(id)
    }
    const holding: Holding = { slots: 0, bytes: 0, leftMs: Number.NEGATIVE_INFINITY, largest: null }
    this.#holdings.set(quotaId, holding)
    return holding
  }

  /** Whether a key may not come to hold so much of what there is `most` of, and of which so much would be used then. */
  #isTooMuch(holding: Holding, held: number, used: number, most: number): boolean {
    if (this.options.share === 1) return false
    const left = most - used
    // One slot at least: a share of little would be nothing at all.
    const share = Math.max(1, Math.floor(most * this.options.share))
    if (held <= Math.max(1, Math.min(share, (left * left) / share))) return false
    return used * 2 > most || this.#isAnotherThere(holding)
  }

  #isAnotherThere(holding: Holding): boolean {
    const sinceMs = this.options.nowMs() - RECENT_MS
    for (const other of this.#holdings.values()) {
      if (other !== holding && (other.slots > 0 || other.leftMs > sinceMs)) return true
    }
    return false
  }
}

/** What one request takes of it, from its entry to its end. */
export class AdmissionSlot implements Disposable {
  #bytes = 0
  /** Ends the request, once it was admitted. */
  #end: RequestEnd | null = null
  #isLeft = false

  constructor(
    private readonly load: Load,
    private readonly holding: Holding,
    readonly key: Key,
  ) {}

  /** Counts bytes in that the request keeps until it ends. Returns the refusal where there is no room for them. */
  readonly take = (bytes: number): GatewayError | null => {
    if (this.#isLeft) return null
    const overloaded = this.load.take(bytes, this.holding, this)
    if (overloaded === null) this.#bytes += bytes
    return overloaded
  }

  /**
   * Has a drain wait for the request's end. Returns the signal that ends it: it aborts when its client leaves, or when the drain
   * waits no longer.
   */
  admit(client: AbortSignal): EndSignal {
    this.load.admit(this)
    this.#end = new RequestEnd(client)
    return this.#end
  }

  /** Ends the request, if it was admitted. Nothing happens where its client has left already. */
  stop(): void {
    this.#end?.end('stopped')
  }

  /** Gives all of it back. Idempotent. */
  [Symbol.dispose](): void {
    if (this.#isLeft) return
    this.#isLeft = true
    if (this.holding.largest === this) this.holding.largest = null
    this.#end = null
    this.load.leave(this.#bytes, this, this.holding)
  }
}

const toMebibytes = (bytes: number) => Math.round(bytes / 1024 ** 2)

export const stopping = () =>
  new GatewayError('overloaded', 'The server is stopping and takes no new requests. Try again.', {
    headers: { connection: 'close' },
  })

const overShare = ({ name, ownerId }: Key, held: string) =>
  new GatewayError(
    'over_share',
    `Key \`${name}\`${ownerId === null ? '' : ', together with the other keys of its owner,'} ${held} for other keys. Wait for an answer that is under way, and try again.`,
  )

/** So long nobody must have been refused before there is room again. */
const QUIET_MS = 10_000

interface OverloadOptions {
  onChange(reason: string | null): void
  after?(ms: number, then: () => void): void
}

const later = (ms: number, then: () => void): void => void setTimeout(then, ms).unref()

/**
 * Whether requests are refused for want of room, and why: for as long as that goes on, and some seconds more, so that a
 * server that is full for an hour says so once and not with each request.
 */
export class OverloadState {
  /** Why requests are refused; null where none is. */
  reason: string | null = null
  #wasNoted = false

  constructor(private readonly options: OverloadOptions) {}

  /** Notes that there is no room for another request, or for more of one. */
  note(reason: string): void {
    this.#wasNoted = true
    if (this.reason !== null) return
    this.reason = reason
    this.options.onChange(reason)
    this.#wait()
  }

  #wait(): void {
    this.#wasNoted = false
    const { after = later } = this.options
    after(QUIET_MS, () => {
      if (this.#wasNoted) {
        this.#wait()
        return
      }
      this.reason = null
      this.options.onChange(null)
    })
  }
}

/**
 * Ends one request: when its client leaves, or before that, when the server stops. A client's own signal that anybody listens to costs
 * 4 us of 65 a request (a controller of its own with a listener at it, `bun run bench`), so that of this one only those pay who listen.
 */
class RequestEnd implements EndSignal {
  #ended: EndReason | null = null
  #listeners: Set<() => void> | null = null

  constructor(private readonly client: AbortSignal) {}

  get aborted(): boolean {
    return this.#ended !== null || this.client.aborted
  }

  get reason(): unknown {
    return this.#ended ?? this.client.reason
  }

  addEventListener(type: 'abort', listener: () => void, options?: { once?: boolean }): void {
    this.#listeners ??= new Set()
    this.#listeners.add(listener)
    this.client.addEventListener(type, listener, options)
  }

  removeEventListener(type: 'abort', listener: () => void): void {
    this.#listeners?.delete(listener)
    this.client.removeEventListener(type, listener)
  }

  /** Ends it. Does nothing where its client has left already. */
  end(why: EndReason): void {
    if (this.aborted) return
    this.#ended = why
    for (const listener of this.#listeners ?? []) {
      this.client.removeEventListener('abort', listener)
      listener()
    }
  }
}
