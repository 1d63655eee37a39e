/**
 * What each key, or all keys of one owner, hold of what a process has: places of requests under way, and bytes of memory for them. While others are
 * there, or much is taken, a key holds its share at most; and once less than a share is left, the same part of that as is left
 * of a share. So whoever comes next finds room, also where dozens of keys take all they can. Used by `intake.ts` alone.
 */

/** A key that held a place so recently counts as being there. */
const RECENT_MS = 60_000

export interface Holding {
  places: number
  bytes: number
  /** When it gave its last place back. */
  leftMs: number
  /** The one place of it that may hold more bytes than the share allows: what is large has to fit somewhere. */
  largest: object | null
}

export interface SharesOptions {
  /** Most that a key holds of anything, from 0 to 1. */
  share: number
  /** A clock that never steps, ms. */
  nowMs(): number
}

export class Shares {
  readonly #share: number
  readonly #nowMs: () => number
  readonly #holdings = new Map<string, Holding>()
  #sweptMs = Number.NEGATIVE_INFINITY

  constructor({ share, nowMs }: SharesOptions) {
    this.#share = share
    this.#nowMs = nowMs
  }

  of(shareId: string): Holding {
    const known = this.#holdings.get(shareId)
    if (known) return known
    this.#sweep()
    const holding: Holding = { places: 0, bytes: 0, leftMs: Number.NEGATIVE_INFINITY, largest: null }
    this.#holdings.set(shareId, holding)
    return holding
  }

  /** Whether a key may not come to hold so much of what there is `most` of, and of which so much would be used then. */
  isTooMuch(holding: Holding, held: number, used: number, most: number): boolean {
    if (this.#share === 1) return false
    const left = most - used
    // One place at least: a share of little would be nothing at all.
    const share = Math.max(1, Math.floor(most * this.#share))
    if (held <= Math.max(1, Math.min(share, (left * left) / share))) return false
    return used * 2 > most || this.#isAnotherThere(holding)
  }

  leave(holding: Holding): void {
    if (--holding.places === 0) holding.leftMs = this.#nowMs()
  }

  #isAnotherThere(holding: Holding): boolean {
    const sinceMs = this.#nowMs() - RECENT_MS
    for (const other of this.#holdings.values()) {
      if (other !== holding && (other.places > 0 || other.leftMs > sinceMs)) return true
    }
    return false
  }

  /** Whoever has not been there for a while is forgotten, so that idle keys do not pile up. */
  #sweep(): void {
    const nowMs = this.#nowMs()
    if (nowMs - this.#sweptMs < RECENT_MS) return
    this.#sweptMs = nowMs
    for (const [shareId, { places, leftMs }] of this.#holdings) {
      if (places === 0 && leftMs <= nowMs - RECENT_MS) this.#holdings.delete(shareId)
    }
  }
}
