/**
 * What keys and teams may spend in a period, in integer nano-dollars: reserved before a request is made, settled with
 * what it cost. A request belongs to the period that it was admitted in: its charges are on that period's usage, so
 * whatever settles late, or after a budget is gone, changes nothing of what came after. The limiter has one for all of them. Pure.
 */

import { BUDGET_WARNING_PERCENT, type Budget } from '../domain/limits.ts'
import type { Spender } from '../domain/snapshot.ts'
import {
  type BudgetCharge,
  type BudgetRefusal,
  BudgetReservation,
  type Cost,
  type Counting,
  findFull,
  roomOf,
} from './budget-reservation.ts'
import { type BudgetState, openPeriod, rollOver } from './budget-state.ts'
import { toBudgetMs, toInForce } from './period.ts'

/** A key or a team. */
interface Owner {
  id: string
  name: string
  budget: Budget | null
}

/** Spent passes `percent` of a budget for the first time in its period. */
export interface BudgetWarning {
  spender: Spender
  name: string
  spentNanoUsd: number
  budget: Budget
  /** BUDGET_WARNING_PERCENT, or 100. */
  percent: number
}

/**
 * What was spent from `fromMs` on and before `untilMs`, requests under way at what they have reserved.
 *
 * @param underWay takes those, by their ids, and what each is counted with.
 */
export type SpentOf = (
  spender: Spender,
  span: { fromMs: number; untilMs: number },
  underWay: Map<string, number>,
) => number

/** A request that has ended: who asked, and what it has cost. */
export interface Ended {
  id: string
  keyId: string
  teamId: string | null
  costNanoUsd: number
}

type BudgetStates = Record<Spender['kind'], Map<string, BudgetState>>

export class Budgets {
  readonly #onWarning: (warning: BudgetWarning) => void
  #states: BudgetStates = { key: new Map(), team: new Map() }
  /** The latest time that the clock has shown: periods go by it. */
  #latestMs: number

  /** @param latestMs the latest time that the ledger knows of. */
  constructor(onWarning: (warning: BudgetWarning) => void, latestMs: number) {
    this.#onWarning = onWarning
    this.#latestMs = latestMs
  }

  /**
   * Reserves on all that have a budget, or on none: then the first that has no room is returned. However many ask at once,
   * at most one of them is let in for less than it may cost, so that what all of them cost ends within a call of the budget.
   *
   * @param counting of what is held without having been counted.
   */
  reserve(
    key: Owner,
    team: Owner | null,
    cost: Cost,
    counting: Counting | null,
    wallMs: number,
  ): BudgetReservation | BudgetRefusal {
    const charges = this.#chargesOf(key, team, wallMs)
    return findFull(charges, cost.likelyNanoUsd, 0) ?? new BudgetReservation(this, charges, cost, counting)
  }

  /** How much all of their budgets have left; Infinity without any. */
  room(key: Owner, team: Owner | null, wallMs: number): number {
    return roomOf(this.#chargesOf(key, team, wallMs))
  }

  /** Has what is under way on these budgets counted, so that it holds no more than it may cost. */
  async countOthers(key: Owner, team: Owner | null): Promise<void> {
    const all = [this.#states.key.get(key.id), team ? this.#states.team.get(team.id) : undefined]
    const uncounted = new Set(all.flatMap((state) => [...(state?.usage.uncounted ?? [])]))
    await Promise.all([...uncounted].map((reservation) => reservation.count()))
  }

  /** See `Limiter.renew`. */
  renew(keys: Iterable<Owner>, teams: Iterable<Owner>, spentOf: SpentOf, wallMs: number): void {
    this.#latestMs = toBudgetMs(wallMs, this.#latestMs)
    // Both before either is taken over: `spentOf` may throw.
    this.#states = {
      key: this.#renewed('key', keys, spentOf, wallMs),
      team: this.#renewed('team', teams, spentOf, wallMs),
    }
    for (const state of [...this.#states.key.values(), ...this.#states.team.values()]) this.warn(state)
  }

  /** See `Limiter.ended`. */
  ended({ id, keyId, teamId, costNanoUsd }: Ended): void {
    this.#correct(this.#states.key.get(keyId), id, costNanoUsd)
    if (teamId !== null) this.#correct(this.#states.team.get(teamId), id, costNanoUsd)
  }

  #correct(state: BudgetState | undefined, requestId: string, costNanoUsd: number): void {
    const counted = state?.usage.underWay.get(requestId)
    if (state === undefined || counted === undefined) return
    state.usage.underWay.delete(requestId)
    state.usage.spentNanoUsd += costNanoUsd - counted
    this.warn(state)
  }

  /** The budget that a charge is on, unless it is gone or in another period by now. */
  stateOf({ state: { spender }, usage }: BudgetCharge): BudgetState | undefined {
    const state = this.#states[spender.kind].get(spender.id)
    return state?.usage === usage ? state : undefined
  }

  warn({ spender, name, budget, usage }: BudgetState): void {
    const percent = toLevel(usage.spentNanoUsd, budget.nanoUsd)
    const isNew = percent > usage.warned
    // Also downwards: whoever gets a larger budget is warned of that one again.
    usage.warned = percent
    if (isNew) this.#onWarning({ spender, name, spentNanoUsd: usage.spentNanoUsd, budget, percent })
  }

  #chargesOf(key: Owner, team: Owner | null, wallMs: number): BudgetCharge[] {
    const charges: BudgetCharge[] = []
    this.#latestMs = toBudgetMs(wallMs, this.#latestMs)
    if (key.budget !== null) charges.push(this.#charge('key', key, key.budget))
    if (team !== null && team.budget !== null) charges.push(this.#charge('team', team, team.budget))
    return charges
  }

  #charge(kind: Spender['kind'], { id, name }: Owner, budget: Budget): BudgetCharge {
    let state = this.#states[kind].get(id)
    if (state === undefined) {
      const usage = openPeriod(budget.period, this.#latestMs, 0, true)
      state = { spender: { kind, id }, name, budget, usage, previous: null }
      this.#states[kind].set(id, state)
    }
    // The owner in hand may be from before the last change, which is in force all the same.
    rollOver(state, this.#latestMs)
    return { state, usage: state.usage }
  }

  #renewed(kind: Spender['kind'], owners: Iterable<Owner>, spentOf: SpentOf, wallMs: number): Map<string, BudgetState> {
    const next = new Map<string, BudgetState>()
    for (const { id, name, budget } of owners) {
      if (budget === null || next.has(id)) continue
      const spender: Spender = { kind, id }
      const known = this.#states[kind].get(id)
      const { period } = budget
      if (known !== undefined && !known.usage.isProvisional && known.budget.period === period) {
        rollOver(known, this.#latestMs)
        next.set(id, { ...known, name, budget })
        continue
      }
      const underWay = new Map<string, number>()
      const spent = spentOf(spender, toInForce(period, wallMs, this.#latestMs), underWay)
      const usage = openPeriod(period, this.#latestMs, spent, false, underWay)
      next.set(id, { spender, name, budget, usage, previous: null })
    }
    return next
  }
}

/** The highest of the percentages that are warned of which has been spent; 0 for none. */
function toLevel(spentNanoUsd: number, limitNanoUsd: number): number {
  if (spentNanoUsd === 0) return 0
  if (spentNanoUsd >= limitNanoUsd) return 100
  // Most are far from it, and every request that settles asks.
  if (spentNanoUsd < limitNanoUsd / 2) return 0
  // Exact: a hundred times a large budget is beyond 2^53.
  const isNear = BigInt(spentNanoUsd) * 100n >= BigInt(limitNanoUsd) * BigInt(BUDGET_WARNING_PERCENT)
  return isNear ? BUDGET_WARNING_PERCENT : 0
}
