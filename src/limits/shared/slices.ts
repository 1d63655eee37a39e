/**
 * A node's slices of budgets: what it may spend if the engine can't be reached, held there beforehand, so that no outage
 * exceeds a budget. All nodes together hold an eighth of what is left, as of when each last looked, and nothing once
 * little is left.
 */
import type { Ask, ScopeAsk, ScopeName, ScopeReply, Told, Usage } from './engine.ts'

interface Slice {
  readonly id: string
  /** Its budget alone. */
  scope: ScopeAsk
  nanoUsd: number
  usedMs: number
  isAsking: boolean
}

export interface SlicesDeps {
  ask(ask: Ask): Promise<ScopeReply[] | null>
  tell(told: Told): void
  nodes(): number
  /** Monotonic clock, ms. */
  monotonicMs(): number
}

const PART = 8
/** A slice smaller than this many requests is of no use. */
const LEAST_REQUESTS = 4
const IDLE_MS = 60_000

export class Slices {
  readonly #slices = new Map<ScopeName, Slice>()

  constructor(private readonly deps: SlicesDeps) {}

  /** Nano-dollars; 0 for none. */
  of(name: ScopeName, usage: Usage): number {
    const slice = this.#slices.get(name)
    return slice?.scope.budget?.usage === usage ? slice.nanoUsd : 0
  }

  /** @param askedNanoUsd of a request just decided. */
  adjust(scope: ScopeAsk, { spentNanoUsd, reservedNanoUsd }: ScopeReply, askedNanoUsd: number): void {
    const { name, budget } = scope
    if (budget === undefined || askedNanoUsd === 0) return
    let slice = this.#slices.get(name)
    if (slice !== undefined && slice.scope.budget?.usage !== budget.usage) {
      this.release(name)
      slice = undefined
    }
    const held = slice?.nanoUsd ?? 0
    const leftNanoUsd = budget.nanoUsd - spentNanoUsd - reservedNanoUsd + held
    const part = Math.floor(leftNanoUsd / (PART * this.deps.nodes()))
    const wanted = part < LEAST_REQUESTS * askedNanoUsd ? 0 : part
    const alone = { name, budget }
    if (slice !== undefined) Object.assign(slice, { usedMs: this.deps.monotonicMs(), scope: alone })
    if (wanted === 0) this.release(name)
    else if (slice !== undefined && wanted < held / 2) {
      slice.nanoUsd = wanted
      this.deps.tell({ op: 'lower', id: slice.id, heldNanoUsd: wanted })
    } else if (wanted > held * 2) void this.#grow(alone, budget.usage, wanted)
  }

  /** True if there was one. */
  release(name: ScopeName): boolean {
    const told = this.take(name)
    if (told !== null) this.deps.tell(told)
    return told !== null
  }

  /** For the caller to tell; null if there is none. */
  take(name: ScopeName): Told | null {
    const slice = this.#slices.get(name)
    this.#slices.delete(name)
    return slice ? { op: 'end', id: slice.id, isCanceled: true, nanoUsd: 0 } : null
  }

  /** Releases those of budgets that this node doesn't use, or all. */
  sweep(isAll: boolean): void {
    const sinceMs = this.deps.monotonicMs() - IDLE_MS
    for (const [name, { usedMs }] of this.#slices) if (isAll || usedMs < sinceMs) this.release(name)
  }

  /** Restores what the engine may have lost. */
  *held(): Iterable<Told> {
    for (const { id, scope, nanoUsd } of this.#slices.values())
      if (nanoUsd > 0) yield { op: 'hold', id, scopes: [scope], requests: 0, slots: 0, heldNanoUsd: nanoUsd }
  }

  async #grow(scope: ScopeAsk, usage: string, wanted: number): Promise<void> {
    const { name } = scope
    let slice = this.#slices.get(name)
    if (slice === undefined) {
      slice = { id: `slice:${name}:${usage}`, scope, nanoUsd: 0, usedMs: this.deps.monotonicMs(), isAsking: false }
      this.#slices.set(name, slice)
    }
    if (slice.isAsking) return
    slice.isAsking = true
    const { id } = slice
    const replies = await this.deps.ask({
      ...{ id, op: 'raise', scopes: [scope], requests: 0, slots: 0, likelyNanoUsd: wanted, heldNanoUsd: wanted },
    })
    slice.isAsking = false
    if (this.#slices.get(name) !== slice) this.deps.tell({ op: 'end', id, isCanceled: true, nanoUsd: 0 })
    else if (replies?.every(({ budget }) => budget === 'fits')) slice.nanoUsd = wanted
  }
}
