/**
 * What one request holds on the budgets that it is under: at first what it costs by the worst case, a token a byte of its text,
 * and where budgets have no room for that, what it costs by a count. `budget.ts` makes them. Pure.
 */
import type { Budget } from '../domain/limits.ts'
import type { Spender } from '../domain/snapshot.ts'
import type { Budgets } from './budget.ts'
import type { BudgetState, PeriodUsage } from './budget-state.ts'

/** Which budget has no room, in the figures that a refusal names. */
export interface BudgetRefusal {
  kind: Spender['kind']
  name: string
  budget: Budget
  spentNanoUsd: number
  reservedNanoUsd: number
  /** What the request asks for beyond what it has reserved. */
  askedNanoUsd: number
  /** When the next period begins; null for a budget in total. */
  resetMs: number | null
}

/** What a request may cost, in nano-dollars. */
export interface Cost {
  /** For so much there has to be room. */
  likelyNanoUsd: number
  /** At most: so much is held until it is known. */
  mostNanoUsd: number
  /** What the rows that are on record reserve, which a kill charges, though it be more than is counted: no less is held. */
  reservedNanoUsd: number
}

/** How it is found out what a request of a nearly spent budget may cost: by the worst case first, which is known at once. */
export interface Counting {
  /** It never costs less than this. */
  leastNanoUsd(): number
  /** Counts its prompt, which takes a while. Null where that is not possible in time. */
  count(): Promise<Cost | null>
}

/** What a request takes from one budget, which is as the request found it, in the period that it was admitted in. */
export interface BudgetCharge {
  readonly state: BudgetState
  readonly usage: PeriodUsage
}

const toHeld = ({ mostNanoUsd, reservedNanoUsd }: Cost) => Math.max(mostNanoUsd, reservedNanoUsd)

/** What is this much smaller than a budget is held as it is: to count it would hardly make room. */
const SMALL = 1_000

const NOTHING: Cost = { likelyNanoUsd: 0, mostNanoUsd: 0, reservedNanoUsd: 0 }

/** What one request holds on each budget that it is under. */
export class BudgetReservation {
  readonly #budgets: Budgets
  readonly #charges: readonly BudgetCharge[]
  #held: number
  /** Null once it was counted, or cannot be. */
  #counting: Counting | null
  /** Of what was asked for since, and had room in what is held. */
  #within: Counting | null = null
  #isOver = false

  constructor(budgets: Budgets, charges: readonly BudgetCharge[], { mostNanoUsd }: Cost, counting: Counting | null) {
    this.#budgets = budgets
    this.#charges = charges
    this.#held = 0
    this.#counting = null
    this.#hold(mostNanoUsd)
    this.#setUncounted(counting)
  }

  /** Whether anything is held at all. */
  get isNeeded(): boolean {
    return this.#charges.length > 0
  }

  /** Makes it hold at least so much, on all of them or on none; also once it is counted. */
  raise(cost: Cost, counting: Counting | null): BudgetRefusal | null {
    const { likelyNanoUsd } = cost
    const heldNanoUsd = toHeld(cost)
    if (this.#isOver) return null
    if (heldNanoUsd <= this.#held) {
      this.#within = counting
      return null
    }
    const now = this.#charges.map((one) => ({ state: this.#budgets.stateOf(one) ?? one.state, usage: one.usage }))
    const refusal = findFull(now, likelyNanoUsd, this.#held)
    if (refusal !== null) return refusal
    // What would have been counted is only a part of it from here on.
    this.#setCounted()
    this.#hold(heldNanoUsd)
    this.#setUncounted(counting)
    return null
  }

  /** The most that it may hold: what it does, and what all of its budgets have left. */
  room(): number {
    const now = this.#charges.map((one) => ({ state: this.#budgets.stateOf(one) ?? one.state, usage: one.usage }))
    return this.#held + roomOf(now)
  }

  /** Has it counted, once, and holds no more than that says. Never rejects. */
  async count(): Promise<void> {
    const [counting, within] = [this.#counting, this.#within]
    if (counting === null) return
    const [all, more] = await Promise.all([counting.count(), within === null ? NOTHING : within.count()])
    // It may have been raised or settled meanwhile.
    if (this.#counting !== counting) return
    if (this.#within !== within) return this.count()
    this.#setCounted()
    if (all === null || more === null) return
    this.#hold(Math.min(this.#held, Math.max(toHeld(all), toHeld(more))))
  }

  /** Turns the reservation into what was spent, also beyond the budget. Once. */
  settle(nanoUsd: number): void {
    this.#setCounted()
    this.#hold(0)
    this.#isOver = true
    for (const charge of this.#charges) {
      charge.usage.spentNanoUsd += nanoUsd
      const state = this.#budgets.stateOf(charge)
      if (state) this.#budgets.warn(state)
    }
  }

  #hold(nanoUsd: number): void {
    for (const { usage } of this.#charges) usage.reservedNanoUsd += nanoUsd - this.#held
    this.#held = nanoUsd
  }

  /** Lets it be counted, where that may make room. */
  #setUncounted(counting: Counting | null): void {
    if (counting === null || !this.#charges.some(({ state }) => this.#held * SMALL > state.budget.nanoUsd)) return
    this.#counting = counting
    this.#within = null
    for (const { usage } of this.#charges) usage.uncounted.add(this)
  }

  #setCounted(): void {
    if (this.#counting === null) return
    this.#counting = null
    for (const { usage } of this.#charges) usage.uncounted.delete(this)
  }
}

/** What all of these budgets have left; Infinity for none. */
export const roomOf = (charges: readonly BudgetCharge[]): number =>
  Math.min(
    Number.POSITIVE_INFINITY,
    ...charges.map(({ state, usage }) => state.budget.nanoUsd - usage.spentNanoUsd - usage.reservedNanoUsd),
  )

/**
 * Finds the first that has no room for a request. What costs nothing, such as a local model, is let through whatever was spent.
 *
 * @param heldNanoUsd what the request holds already.
 */
export function findFull(
  charges: readonly BudgetCharge[],
  likelyNanoUsd: number,
  heldNanoUsd: number,
): BudgetRefusal | null {
  const moreNanoUsd = likelyNanoUsd - heldNanoUsd
  if (likelyNanoUsd === 0) return null
  // What it holds already may be more than it is likely to cost.
  const askedNanoUsd = Math.max(0, moreNanoUsd)
  for (const { state, usage } of charges) {
    const { spender, name, budget } = state
    const { spentNanoUsd, reservedNanoUsd, endMs: resetMs } = usage
    if (spentNanoUsd + reservedNanoUsd + moreNanoUsd > budget.nanoUsd)
      return { kind: spender.kind, name, budget, spentNanoUsd, reservedNanoUsd, askedNanoUsd, resetMs }
  }
  return null
}
