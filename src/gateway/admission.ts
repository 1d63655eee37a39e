/**
 * Admission control: limits of requests in flight, of open realtime sessions, and of the memory they hold, in total and
 * per key. Excess ones are rejected at once, never queued.
 */
import type { EndReason, EndSignal } from '../domain/end-signal.ts'
import { type Decision, GatewayError } from '../domain/error.ts'
import type { Key } from '../domain/snapshot.ts'

interface LoadOptions {
  maxInFlight: number
  maxBufferedBytes: number
  /** Largest part of either that one key, or all keys of one owner, may hold while others are active, from 0 to 1. */
  share: number
  /** Monotonic clock, ms. */
  nowMs(): number
  overload?: Pick<OverloadState, 'note'>
}

/** A key that released a slot within this time counts as active. */
const RECENT_MS = 60_000

/** A session holds no request slot, so that idle ones leave them to others: each of its turns takes one. */
type Kind = 'requests' | 'sessions'

const WORDS = {
  requests: { all: 'requests in flight', slots: 'request slots', until: 'Wait for a running request to finish' },
  sessions: { all: 'realtime sessions', slots: 'realtime sessions', until: 'Close another session' },
} as const satisfies Record<Kind, object>

interface Holding extends Record<Kind, number> {
  bytes: number
  leftMs: number
  /** The one slot that may exceed the share, so that large bodies fit somewhere. */
  largest: object | null
}

/**
 * While others are active, or more than half is taken, a key (or all keys of one owner) may hold its share; once less
 * than a share is left, proportionally less, so that the next key always finds capacity.
 */
export class Load {
  readonly #open: Record<Kind, number> = { requests: 0, sessions: 0 }
  /** Bytes of request and response bodies held. */
  bufferedBytes = 0
  isDraining = false
  /** A drain waits for these only. */
  readonly #admitted = new Set<AdmissionSlot>()
  readonly #holdings = new Map<string, Holding>()
  #sweptMs = Number.NEGATIVE_INFINITY
  #waiting: (() => void)[] = []

  constructor(private readonly options: LoadOptions) {}

  get inFlight(): number {
    return this.#open.requests
  }

  enter(key: Key, kind: Kind = 'requests'): Decision<AdmissionSlot> {
    if (this.isDraining) return stopping()
    const { maxInFlight } = this.options
    const most = kind === 'requests' ? maxInFlight : Math.ceil(maxInFlight / 2)
    const open = this.#open[kind]
    const words = WORDS[kind]
    if (open >= most) return this.#full(`${most} ${words.all} (limit)`)
    const holding = this.#holdings.get(key.quotaId) ?? this.#begin(key.quotaId)
    const held = holding[kind]
    if (this.#isTooMuch(kind, holding, held + 1, open + 1, most)) {
      return overShare(key, `has ${held} of this server's ${most} ${words.slots}: the rest are`, words.until)
    }
    this.#open[kind]++
    holding[kind]++
    return new AdmissionSlot(this, holding, key, kind)
  }

  /** Returns an error if there is not enough memory. */
  take(bytes: number, holding: Holding, slot: AdmissionSlot): GatewayError | null {
    const most = this.options.maxBufferedBytes
    const used = this.bufferedBytes + bytes
    const total = `${toMebibytes(most)} MiB`
    if (used > most) return this.#full(`requests in flight hold ${toMebibytes(this.bufferedBytes)} of ${total}`)
    const willHold = holding.bytes + bytes
    if (this.#isTooMuch('requests', holding, willHold, used, most)) {
      holding.largest ??= slot
      if (holding.largest !== slot || willHold > most - used) {
        const held = `holds ${toMebibytes(holding.bytes)} of the ${total} of request memory`
        return overShare(slot.key, `${held}: the rest is`, WORDS.requests.until)
      }
    }
    this.bufferedBytes = used
    holding.bytes += bytes
    return null
  }

  get admitted(): number {
    return this.#admitted.size
  }

  admit(slot: AdmissionSlot): void {
    this.#admitted.add(slot)
  }

  drain(): void {
    this.isDraining = true
  }

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

  stop(): void {
    for (const slot of this.#admitted) slot.stop()
  }

  giveBack(bytes: number, holding: Holding): void {
    this.bufferedBytes -= bytes
    holding.bytes -= bytes
  }

  leave(slot: AdmissionSlot, holding: Holding): void {
    this.#open[slot.kind]--
    if (--holding[slot.kind] === 0) holding.leftMs = this.options.nowMs()
    if (!this.#admitted.delete(slot) || this.admitted > 0) return
    for (const resolve of this.#waiting) resolve()
    this.#waiting = []
  }

  #full(why: string): GatewayError {
    this.options.overload?.note(why)
    return new GatewayError('overloaded', `Tollgate is overloaded: ${why}. The request was not processed. Try again.`)
  }

  /** Forgets inactive keys first, so that they don't pile up. */
  #begin(quotaId: string): Holding {
    const sinceMs = this.options.nowMs() - RECENT_MS
    if (sinceMs >= this.#sweptMs) {
      this.#sweptMs = sinceMs + RECENT_MS
      for (const [id, { requests, sessions, leftMs }] of this.#holdings)
        if (requests + sessions === 0 && leftMs <= sinceMs) this.#holdings.delete(id)
    }
    const holding: Holding = { requests: 0, sessions: 0, bytes: 0, leftMs: Number.NEGATIVE_INFINITY, largest: null }
    this.#holdings.set(quotaId, holding)
    return holding
  }

  /** Whether a key may not hold `held` of `most`, of which `used` would then be in use. */
  #isTooMuch(kind: Kind, holding: Holding, held: number, used: number, most: number): boolean {
    if (this.options.share === 1) return false
    const left = most - used
    const share = Math.max(1, Math.floor(most * this.options.share))
    if (held <= Math.max(1, Math.min(share, (left * left) / share))) return false
    return used * 2 > most || this.#isAnotherThere(kind, holding)
  }

  #isAnotherThere(kind: Kind, holding: Holding): boolean {
    const sinceMs = this.options.nowMs() - RECENT_MS
    for (const other of this.#holdings.values()) {
      if (other !== holding && (other[kind] > 0 || other.leftMs > sinceMs)) return true
    }
    return false
  }
}

export class AdmissionSlot implements Disposable {
  #bytes = 0
  #end: RequestEnd | null = null
  #isLeft = false

  constructor(
    private readonly load: Load,
    private readonly holding: Holding,
    readonly key: Key,
    readonly kind: Kind,
  ) {}

  /** Returns an error if there is not enough memory. */
  readonly take = (bytes: number): GatewayError | null => {
    if (this.#isLeft) return null
    const overloaded = this.load.take(bytes, this.holding, this)
    if (overloaded === null) this.#bytes += bytes
    return overloaded
  }

  /** The memory, not the slot. */
  giveBack(): void {
    this.load.giveBack(this.#bytes, this.holding)
    this.#bytes = 0
    if (this.holding.largest === this) this.holding.largest = null
  }

  /**
   * A drain waits for the request from now on. The signal aborts when its client disconnects or the drain times out.
   */
  admit(client: AbortSignal): EndSignal {
    this.load.admit(this)
    this.#end = new RequestEnd(client)
    return this.#end
  }

  stop(): void {
    this.#end?.end('stopped')
  }

  /** Idempotent. */
  [Symbol.dispose](): void {
    if (this.#isLeft) return
    this.#isLeft = true
    this.#end = null
    this.giveBack()
    this.load.leave(this, this.holding)
  }
}

const toMebibytes = (bytes: number) => Math.round(bytes / 1024 ** 2)

export const stopping = () =>
  new GatewayError('overloaded', 'The server is shutting down. Try again.', {
    headers: { connection: 'close' },
  })

const overShare = ({ name, ownerId }: Key, held: string, until: string) =>
  new GatewayError(
    'over_share',
    `Key \`${name}\`${ownerId === null ? '' : ', together with the other keys of its owner,'} ${held} for other keys. ${until}, then retry.`,
  )

const QUIET_MS = 10_000

interface OverloadOptions {
  onChange(reason: string | null): void
  after?(ms: number, then: () => void): void
}

const later = (ms: number, then: () => void): void => void setTimeout(then, ms).unref()

/** Debounced, so that an overload of an hour is logged once. */
export class OverloadState {
  reason: string | null = null
  #wasNoted = false

  constructor(private readonly options: OverloadOptions) {}

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
 * Listening to the client's own signal costs 4 us of 65 per request (`bun run bench`), so it happens only if someone
 * listens here.
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

  end(why: EndReason): void {
    if (this.aborted) return
    this.#ended = why
    for (const listener of this.#listeners ?? []) {
      this.client.removeEventListener('abort', listener)
      listener()
    }
  }
}
