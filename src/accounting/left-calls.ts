/**
 * Calls whose client has left, or whose server stops, read on for a while to hear what they used: many upstreams say so in their last words alone,
 * and charge for it all the same. Holds how long that may take, and how many calls of a key at once, so that leaving is
 * no way to keep upstreams busy. One for all requests of a process.
 */
import type { Key, Upstream } from '../domain/snapshot.ts'
import type { Reading } from '../upstreams/backend.ts'

/** A key that may have fewer requests under way has as many calls all the same: clients leave in a moment, and come back. */
const LEAST_OF_A_KEY = 8
/** A stop does not wait for longer. */
const DRAIN_MS = 2_000

export class LeftCalls {
  readonly #leaveMs: number
  /** By whose share they are, oldest first. */
  readonly #readings = new Map<string, Set<Reading>>()
  #isDraining = false

  /** @param leaveMs how long, where an upstream has no setting of its own; 0 = not at all. */
  constructor({ leaveMs }: { leaveMs: number }) {
    this.#leaveMs = leaveMs
  }

  /** How long calls to this upstream are read on, ms. A local one costs nothing, and has better to do. */
  readOnMs({ leaveMs, local }: Pick<Upstream, 'leaveMs' | 'local'>): number {
    const ms = leaveMs ?? (local ? 0 : this.#leaveMs)
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
