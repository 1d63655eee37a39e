/**
 * What keys and teams may spend in a period, in integer nano-dollars: reserved before a request is made, settled with
 * what it cost. A request belongs to the period that it was admitted in: its charges are on that period's usage, so
 * whatever settles late, or after a budget is gone, changes nothing of what came after. Used by `limiter.ts` alone. Pure.
 */

import type { Budget } from '../domain/settings.ts'
import type { Scope } from './limiter.ts'
import { startOf } from './period.ts'
import { type BudgetUsage, hasRoom, openUsage, type PeriodUsage, rollOver, toLevel } from './period-usage.ts'

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

/** What one request has reserved on each budget that it is under. */
export interface BudgetReservation {
  /** Makes the reservation at least so much, on all of them or on none. */
  raise(nanoUsd: number): BudgetRefusal | null
  /** Turns the reservation into what was spent, also beyond the budget. Once. */
  settle(nanoUsd: number): void
}

interface Budgets {
  /** Reserves on all that have a budget, or on none: then the first that has no room is returned. */
  reserve(key: Owner, team: Owner | null, nanoUsd: number, wallMs: number): BudgetReservation | BudgetRefusal
  /** See `Limiter.renew`. */
  renew(keys: Iterable<Owner>, teams: Iterable<Owner>, spentOf: SpentOf, wallMs: number): void
}

type SpentOf = (scope: Scope, fromMs: number) => number

/** A budget as it is configured, and what it has come to. */
interface BudgetState {
  readonly scope: Scope
  readonly name: string
  readonly budget: Budget
  usage: BudgetUsage
}

/** What a request takes from one budget, which is as the request found it. */
interface Charge extends Omit<BudgetState, 'usage'> {
  readonly usage: PeriodUsage
}

type BudgetStates = Record<Scope['kind'], Map<string, BudgetState>>

export function createBudgets(onWarning: (warning: BudgetWarning) => void): Budgets {
  let states: BudgetStates = { key: new Map(), team: new Map() }

  const chargesOf = (kind: Scope['kind'], owner: Owner | null, wallMs: number): Charge[] => {
    if (owner === null || owner.budget === null) return []
    const { id, name, budget } = owner
    let state = states[kind].get(id)
    if (state === undefined) {
      state = { scope: { kind, id }, name, budget, usage: openUsage(budget.period, wallMs, 0, true) }
      states[kind].set(id, state)
    }
    // The owner in hand may be from before the last change, which is in force all the same.
    state.usage = rollOver(state.usage, state.budget.period, wallMs)
    return [{ ...state, usage: state.usage.current }]
  }

  /** The budget that a charge is on, unless it is gone or in another period by now. */
  const stateOf = ({ scope, usage }: Charge) => {
    const state = states[scope.kind].get(scope.id)
    return state?.usage.current === usage ? state : undefined
  }

  const warn = ({ scope, name, budget, usage: { current: usage } }: BudgetState) => {
    const percent = toLevel(usage.spentNanoUsd, budget.nanoUsd)
    const isNew = percent > usage.warned
    // Also downwards: whoever gets a larger budget is warned of that one again.
    usage.warned = percent
    if (isNew) onWarning({ scope, name, spentNanoUsd: usage.spentNanoUsd, budget, percent })
  }

  const toReservation = (charges: readonly Charge[], asked: number): BudgetReservation => {
    let held = asked
    for (const { usage } of charges) usage.reservedNanoUsd += held
    return {
      raise(least) {
        if (least <= held) return null
        const more = least - held
        const now = charges.map((one) => ({ ...one, budget: stateOf(one)?.budget ?? one.budget }))
        const refusal = findFull(now, more)
        if (refusal !== null) return refusal
        for (const { usage } of charges) usage.reservedNanoUsd += more
        held = least
        return null
      },
      settle(really) {
        for (const { usage } of charges) {
          usage.reservedNanoUsd -= held
          usage.spentNanoUsd += really
        }
        for (const one of charges) {
          const state = stateOf(one)
          if (state) warn(state)
        }
      },
    }
  }

  const renewed = (kind: Scope['kind'], owners: Iterable<Owner>, spentOf: SpentOf, wallMs: number) => {
    const next = new Map<string, BudgetState>()
    for (const { id, name, budget } of owners) {
      if (budget === null || next.has(id)) continue
      const scope: Scope = { kind, id }
      const known = states[kind].get(id)
      const stays = known !== undefined && !known.usage.current.isProvisional && known.budget.period === budget.period
      const usage = stays
        ? rollOver(known.usage, budget.period, wallMs)
        : openUsage(budget.period, wallMs, spentOf(scope, startOf(budget.period, wallMs)), false)
      next.set(id, { scope, name, budget, usage })
    }
    return next
  }

  return {
    reserve(key, team, nanoUsd, wallMs) {
      const charges = [...chargesOf('key', key, wallMs), ...chargesOf('team', team, wallMs)]
      return findFull(charges, nanoUsd) ?? toReservation(charges, nanoUsd)
    },
    renew(keys, teams, spentOf, wallMs) {
      // Both before either is taken over: `spentOf` may throw.
      states = { key: renewed('key', keys, spentOf, wallMs), team: renewed('team', teams, spentOf, wallMs) }
      for (const state of [...states.key.values(), ...states.team.values()]) warn(state)
    },
  }
}

/** What costs nothing, such as a local model, is let through whatever was spent. */
function findFull(charges: readonly Charge[], askedNanoUsd: number): BudgetRefusal | null {
  if (askedNanoUsd === 0) return null
  const full = charges.find(({ usage, budget }) => !hasRoom(usage, budget.nanoUsd, askedNanoUsd))
  if (full === undefined) return null
  const { scope, name, budget, usage } = full
  const { spentNanoUsd, reservedNanoUsd, endMs: resetMs } = usage
  return { kind: scope.kind, name, budget, spentNanoUsd, reservedNanoUsd, askedNanoUsd, resetMs }
}
