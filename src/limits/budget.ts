/**
 * What keys and teams may spend in a period, in integer nano-dollars: reserved before a request is made, settled with
 * what it cost. A request belongs to the period that it was admitted in: its charges are on that period's usage, so
 * whatever settles late, or after a budget is gone, changes nothing of what came after. Used by `limiter.ts` alone. Pure.
 */

import { BUDGET_WARNING_PERCENT, type Budget, type Period } from '../domain/settings.ts'
import type { Scope } from './limiter.ts'
import { endOf, startOf, toBudgetMs, toInForce } from './period.ts'

/** A key or a team. */
interface Owner {
  id: string
  name: string
  budget: Budget | null
}

/** Spent passes `percent` of a budget for the first time in its period. */
export interface BudgetWarning {
  scope: Scope
  name: string
  spentNanoUsd: number
  budget: Budget
  /** BUDGET_WARNING_PERCENT, or 100. */
  percent: number
}

/** Which budget has no room, in the figures that a refusal names. */
export interface BudgetRefusal {
  kind: Scope['kind']
  name: string
  budget: Budget
  spentNanoUsd: number
  reservedNanoUsd: number
  /** What the request asks for beyond what it has reserved. */
  askedNanoUsd: number
  /** When the next period begins; null for a budget in total. */
  resetMs: number | null
}

/** What was spent from `fromMs` on and before `untilMs`. */
export type SpentOf = (scope: Scope, span: { fromMs: number; untilMs: number }) => number

/** What one period of one budget has come to. Once the next period begins, only what was reserved in it still knows it. */
interface PeriodUsage {
  readonly startMs: number
  /** The first ms of the period after; null where there is none. */
  readonly endMs: number | null
  spentNanoUsd: number
  reservedNanoUsd: number
  /** The percentage that was warned of last. */
  warned: number
  /** Whether nobody was asked what was spent before it began. */
  readonly isProvisional: boolean
}

/** A budget as it is configured, and what it has come to. */
interface BudgetState {
  readonly scope: Scope
  readonly name: string
  readonly budget: Budget
  /** Of the period in force. */
  usage: PeriodUsage
  /** Of the period that was in force before it: a clock that was far ahead for a while comes back to that. */
  previous: PeriodUsage | null
}

/** What a request takes from one budget, which is as the request found it, in the period that it was admitted in. */
interface Charge {
  readonly state: BudgetState
  readonly usage: PeriodUsage
}

type BudgetStates = Record<Scope['kind'], Map<string, BudgetState>>

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

  /** Reserves on all that have a budget, or on none: then the first that has no room is returned. */
  reserve(key: Owner, team: Owner | null, nanoUsd: number, wallMs: number): BudgetReservation | BudgetRefusal {
    const charges: Charge[] = []
    this.#latestMs = toBudgetMs(wallMs, this.#latestMs)
    if (key.budget !== null) charges.push(this.#charge('key', key, key.budget))
    if (team !== null && team.budget !== null) charges.push(this.#charge('team', team, team.budget))
    return findFull(charges, nanoUsd) ?? new BudgetReservation(this, charges, nanoUsd)
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

  /** The budget that a charge is on, unless it is gone or in another period by now. */
  stateOf({ state: { scope }, usage }: Charge): BudgetState | undefined {
    const state = this.#states[scope.kind].get(scope.id)
    return state?.usage === usage ? state : undefined
  }

  warn({ scope, name, budget, usage }: BudgetState): void {
    const percent = toLevel(usage.spentNanoUsd, budget.nanoUsd)
    const isNew = percent > usage.warned
    // Also downwards: whoever gets a larger budget is warned of that one again.
    usage.warned = percent
    if (isNew) this.#onWarning({ scope, name, spentNanoUsd: usage.spentNanoUsd, budget, percent })
  }

  #charge(kind: Scope['kind'], { id, name }: Owner, budget: Budget): Charge {
    let state = this.#states[kind].get(id)
    if (state === undefined) {
      const usage = openPeriod(budget.period, this.#latestMs, 0, true)
      state = { scope: { kind, id }, name, budget, usage, previous: null }
      this.#states[kind].set(id, state)
    }
    // The owner in hand may be from before the last change, which is in force all the same.
    rollOver(state, this.#latestMs)
    return { state, usage: state.usage }
  }

  #renewed(kind: Scope['kind'], owners: Iterable<Owner>, spentOf: SpentOf, wallMs: number): Map<string, BudgetState> {
    const next = new Map<string, BudgetState>()
    for (const { id, name, budget } of owners) {
      if (budget === null || next.has(id)) continue
      const scope: Scope = { kind, id }
      const known = this.#states[kind].get(id)
      const { period } = budget
      if (known !== undefined && !known.usage.isProvisional && known.budget.period === period) {
        rollOver(known, this.#latestMs)
        next.set(id, { ...known, name, budget })
        continue
      }
      const spent = spentOf(scope, toInForce(period, wallMs, this.#latestMs))
      const usage = openPeriod(period, this.#latestMs, spent, false)
      next.set(id, { scope, name, budget, usage, previous: null })
    }
    return next
  }
}

/** What one request has reserved on each budget that it is under. */
export class BudgetReservation {
  readonly #budgets: Budgets
  readonly #charges: readonly Charge[]
  #held: number

  constructor(budgets: Budgets, charges: readonly Charge[], nanoUsd: number) {
    this.#budgets = budgets
    this.#charges = charges
    this.#held = nanoUsd
    for (const { usage } of charges) usage.reservedNanoUsd += nanoUsd
  }

  /** Makes the reservation at least so much, on all of them or on none. */
  raise(nanoUsd: number): BudgetRefusal | null {
    const more = nanoUsd - this.#held
    if (more <= 0) return null
    const now = this.#charges.map((one) => ({ state: this.#budgets.stateOf(one) ?? one.state, usage: one.usage }))
    const refusal = findFull(now, more)
    if (refusal !== null) return refusal
    for (const { usage } of this.#charges) usage.reservedNanoUsd += more
    this.#held = nanoUsd
    return null
  }

  /** Turns the reservation into what was spent, also beyond the budget. Once. */
  settle(nanoUsd: number): void {
    for (const charge of this.#charges) {
      charge.usage.reservedNanoUsd -= this.#held
      charge.usage.spentNanoUsd += nanoUsd
      const state = this.#budgets.stateOf(charge)
      if (state) this.#budgets.warn(state)
    }
  }
}

/** What costs nothing, such as a local model, is let through whatever was spent. */
function findFull(charges: readonly Charge[], askedNanoUsd: number): BudgetRefusal | null {
  if (askedNanoUsd === 0) return null
  for (const { state, usage } of charges) {
    const { scope, name, budget } = state
    const { spentNanoUsd, reservedNanoUsd, endMs: resetMs } = usage
    if (spentNanoUsd + reservedNanoUsd + askedNanoUsd > budget.nanoUsd)
      return { kind: scope.kind, name, budget, spentNanoUsd, reservedNanoUsd, askedNanoUsd, resetMs }
  }
  return null
}

const openPeriod = (period: Period, atMs: number, spentNanoUsd: number, isProvisional: boolean): PeriodUsage => ({
  startMs: startOf(period, atMs),
  endMs: endOf(period, atMs),
  spentNanoUsd,
  reservedNanoUsd: 0,
  warned: 0,
  isProvisional,
})

/**
 * Has a budget be in the period of `atMs`, which only goes back where the clock had been far ahead. One that was for a while
 * finds what was spent before; one that is set back to where nobody knows takes along what there is, until that period ends.
 */
function rollOver(state: BudgetState, atMs: number): void {
  const { usage, previous, budget } = state
  if (isIn(usage, atMs)) return
  state.previous = usage
  if (previous !== null && isIn(previous, atMs)) {
    state.usage = previous
    return
  }
  const isBack = atMs < usage.startMs
  const taken = isBack ? usage.spentNanoUsd + usage.reservedNanoUsd : 0
  state.usage = openPeriod(budget.period, atMs, taken, isBack && usage.isProvisional)
}

const isIn = ({ startMs, endMs }: PeriodUsage, atMs: number) => atMs >= startMs && (endMs === null || atMs < endMs)

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
