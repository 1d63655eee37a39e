/**
 * What keys and teams may spend in a period, in integer nano-dollars: reserved before a request is made, settled with
 * what it cost. A request belongs to the period that it was admitted in: its hold keeps that period's tab, so whatever
 * settles late, or after a budget is gone, changes nothing of what came after. Pure.
 */

import type { Budget } from '../domain/settings.ts'
import type { Scope } from './limiter.ts'
import { startOf } from './period.ts'
import { hasRoom, type Tab, type Tabs, toLevel, toTabs, turn } from './tab.ts'

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
export interface Reserve {
  /** Makes the reserve at least so much, on all of them or on none. */
  raise(nanoUsd: number): BudgetRefusal | null
  /** Turns the reserve into what was spent, also beyond the budget. Once. */
  settle(nanoUsd: number): void
}

interface Budgets {
  /** Reserves on all that have a budget, or on none: then the first that has no room is returned. */
  reserve(key: Owner, team: Owner | null, nanoUsd: number, wallMs: number): Reserve | BudgetRefusal
  /** See `Limiter.renew`. */
  renew(keys: Iterable<Owner>, teams: Iterable<Owner>, spentOf: SpentOf, wallMs: number): void
}

type SpentOf = (scope: Scope, fromMs: number) => number

/** A budget as it is configured, and what it has come to. */
interface Purse {
  readonly scope: Scope
  readonly name: string
  readonly budget: Budget
  tabs: Tabs
}

/** A budget as a request found it. */
interface Claim extends Omit<Purse, 'tabs'> {
  readonly tab: Tab
}

const toClaim = ({ scope, name, budget, tabs }: Purse): Claim => ({ scope, name, budget, tab: tabs.present })

type Purses = Record<Scope['kind'], Map<string, Purse>>

export function createBudgets(onWarning: (warning: BudgetWarning) => void): Budgets {
  let purses: Purses = { key: new Map(), team: new Map() }

  const claim = (kind: Scope['kind'], owner: Owner | null, wallMs: number): Claim[] => {
    if (owner === null || owner.budget === null) return []
    const { id, name, budget } = owner
    let purse = purses[kind].get(id)
    if (purse === undefined) {
      purse = { scope: { kind, id }, name, budget, tabs: toTabs(budget.period, wallMs, 0, true) }
      purses[kind].set(id, purse)
    }
    // The owner in hand may be from before the last change, which is in force all the same.
    purse.tabs = turn(purse.tabs, purse.budget.period, wallMs)
    return [toClaim(purse)]
  }

  /** The purse that a claim is on, unless it is gone or further on by now. */
  const purseOf = ({ scope, tab }: Claim) => {
    const purse = purses[scope.kind].get(scope.id)
    return purse?.tabs.present === tab ? purse : undefined
  }

  const warn = (purse: Purse) => {
    const { scope, name, budget } = purse
    const tab = purse.tabs.present
    const percent = toLevel(tab.spentNanoUsd, budget.nanoUsd)
    const isNew = percent > tab.warned
    // Also downwards: whoever gets a larger budget is warned of that one again.
    tab.warned = percent
    if (isNew) onWarning({ scope, name, spentNanoUsd: tab.spentNanoUsd, budget, percent })
  }

  const toReserve = (claims: readonly Claim[], asked: number): Reserve => {
    let held = asked
    for (const { tab } of claims) tab.reservedNanoUsd += held
    return {
      raise(least) {
        if (least <= held) return null
        const more = least - held
        const now = claims.map((one) => ({ ...one, budget: purseOf(one)?.budget ?? one.budget }))
        const refusal = findFull(now, more)
        if (refusal !== null) return refusal
        for (const { tab } of claims) tab.reservedNanoUsd += more
        held = least
        return null
      },
      settle(really) {
        for (const { tab } of claims) {
          tab.reservedNanoUsd -= held
          tab.spentNanoUsd += really
        }
        for (const one of claims) {
          const purse = purseOf(one)
          if (purse) warn(purse)
        }
      },
    }
  }

  const renewed = (kind: Scope['kind'], owners: Iterable<Owner>, spentOf: SpentOf, wallMs: number) => {
    const next = new Map<string, Purse>()
    for (const { id, name, budget } of owners) {
      if (budget === null || next.has(id)) continue
      const scope: Scope = { kind, id }
      const known = purses[kind].get(id)
      const stays = known !== undefined && !known.tabs.present.isProvisional && known.budget.period === budget.period
      const tabs = stays
        ? turn(known.tabs, budget.period, wallMs)
        : toTabs(budget.period, wallMs, spentOf(scope, startOf(budget.period, wallMs)), false)
      next.set(id, { scope, name, budget, tabs })
    }
    return next
  }

  return {
    reserve(key, team, nanoUsd, wallMs) {
      const claims = [...claim('key', key, wallMs), ...claim('team', team, wallMs)]
      return findFull(claims, nanoUsd) ?? toReserve(claims, nanoUsd)
    },
    renew(keys, teams, spentOf, wallMs) {
      // Both before either is taken over: `spentOf` may throw.
      purses = { key: renewed('key', keys, spentOf, wallMs), team: renewed('team', teams, spentOf, wallMs) }
      for (const purse of [...purses.key.values(), ...purses.team.values()]) warn(purse)
    },
  }
}

/** What costs nothing, such as a local model, is let through whatever was spent. */
function findFull(claims: readonly Claim[], askedNanoUsd: number): BudgetRefusal | null {
  if (askedNanoUsd === 0) return null
  const full = claims.find(({ tab, budget }) => !hasRoom(tab, budget.nanoUsd, askedNanoUsd))
  if (full === undefined) return null
  const { scope, name, budget, tab } = full
  const { spentNanoUsd, reservedNanoUsd, endMs: resetMs } = tab
  return { kind: scope.kind, name, budget, spentNanoUsd, reservedNanoUsd, askedNanoUsd, resetMs }
}
