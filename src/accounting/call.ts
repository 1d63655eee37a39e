/**
 * One call to an upstream, from its plan to its end, and the calls that are read on for their usage after their client
 * has disconnected. `call-log.ts` has the calls of a request.
 */
import type { EndSignal } from '../domain/end-signal.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { Key, Target, Upstream } from '../domain/snapshot.ts'
import { isTimed } from '../domain/tariff.ts'
import type { Lane, NativeRequest } from '../domain/task.ts'
import type { Reservation } from '../limits/limiter.ts'
import type { CallReason, OpenCall } from '../store/ledger-rows.ts'
import type { CallObserver, Reading } from '../upstreams/backend.ts'
import type { Hold } from './hold.ts'
import { Meter } from './meter.ts'

/** One call to be made. */
export interface PlannedCall {
  target: Target
  /** The canonical request. Whoever wraps a dispatch changes copies of it. */
  body: AnyRequest
  /** What goes on as it came in place of that; null where the call is translated. */
  native: NativeRequest | null
  /** `retry` and `fallback` after a call that failed, `limit` where a limit of ours kept the one before from being made. */
  reason: CallReason
  /** Aborts when the answer is no longer wanted. */
  signal: EndSignal
}

export interface CallDeps {
  key: Pick<Key, 'shareId' | 'limits'>
  reservation: Pick<Reservation, 'releaseSlot'>
  disconnectedCalls: DisconnectedCalls
  /** A clock that never steps, ms. */
  monotonicMs(): number
}

/** Whom it goes to, what its meter reads, and how it is read on once nobody gets its answer any more: its backend tells it of that. */
export class Call implements CallObserver {
  readonly #deps: CallDeps
  readonly meter: Meter
  /** When it noticed that its client had left or the server stops, by `performance.now()`; null where it has not. */
  leftMs: number | null = null
  #reading: Reading | null = null
  /** What it holds while it writes; null where that is all from the start. */
  hold: Hold | null = null

  /**
   * @param number from 1 on.
   * @param row its row in `calls`, as it stands by now; null for the first call.
   */
  constructor(
    deps: CallDeps,
    readonly number: number,
    readonly target: Target,
    readonly body: AnyRequest,
    readonly lane: Lane,
    public row: OpenCall | null,
  ) {
    this.#deps = deps
    this.meter = new Meter(deps.monotonicMs)
  }

  /** How long it goes on for its usage when its client leaves or the server stops, ms; 0 = not at all. */
  get readOnMs(): number {
    return this.#deps.disconnectedCalls.readOnMs(this.target.upstream)
  }

  /** See `CallObserver`. Whose time costs nothing is not timed. */
  sent(): void {
    if (isTimed(this.target.pricing)) this.meter.sent()
  }

  /** See `CallObserver`. The request's slot is free from now on. */
  left(reading: Reading): number {
    const { key, reservation, disconnectedCalls } = this.#deps
    this.leftMs = performance.now()
    this.#reading = reading
    reservation.releaseSlot()
    const ms = this.readOnMs
    if (ms > 0) disconnectedCalls.add(key, reading)
    return ms
  }

  /** Notes that nothing is read of it any more. */
  over(): void {
    this.hold?.end()
    if (this.#reading !== null) this.#deps.disconnectedCalls.delete(this.#deps.key.shareId, this.#reading)
  }
}

/** Also for a key with a lower concurrency: clients disconnect and come back within a moment. */
const LEAST_OF_A_KEY = 8
/** A stop does not wait for longer. */
const DRAIN_MS = 2_000

export class DisconnectedCalls {
  readonly #disconnectGraceMs: number
  /** By whose share they are, oldest first. */
  readonly #readings = new Map<string, Set<Reading>>()
  #isDraining = false

  /** @param disconnectGraceMs how long, where an upstream has no setting of its own; 0 = not at all. */
  constructor({ disconnectGraceMs }: { disconnectGraceMs: number }) {
    this.#disconnectGraceMs = disconnectGraceMs
  }

  /** How long calls to this upstream are read on, ms. A local one costs nothing, and has better to do. */
  readOnMs({ disconnectGraceMs, local }: Pick<Upstream, 'disconnectGraceMs' | 'local'>): number {
    const ms = disconnectGraceMs ?? (local ? 0 : this.#disconnectGraceMs)
    return this.#isDraining ? Math.min(ms, DRAIN_MS) : ms
  }

  /**
   * Counts one in. Where the key has more than it may have requests under way, its oldest is ended; one without such a limit has
   * as many as it finds places for, which they keep.
   */
  add({ shareId, limits }: Pick<Key, 'shareId' | 'limits'>, reading: Reading): void {
    const readings = this.#readings.getOrInsertComputed(shareId, () => new Set())
    const [oldest] = readings
    if (oldest && limits.concurrency !== null && readings.size >= Math.max(LEAST_OF_A_KEY, limits.concurrency)) {
      readings.delete(oldest)
      oldest.endWithin(0)
    }
    readings.add(reading)
  }

  /** Counts one out that has ended. Idempotent. */
  delete(shareId: string, reading: Reading): void {
    const readings = this.#readings.get(shareId)
    if (readings?.delete(reading) && readings.size === 0) this.#readings.delete(shareId)
  }

  /** From now on none is read for long. */
  drain(): void {
    this.#isDraining = true
    for (const readings of this.#readings.values()) for (const reading of readings) reading.endWithin(DRAIN_MS)
  }
}
