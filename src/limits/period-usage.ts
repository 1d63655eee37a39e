/**
 * What one period of one budget has come to, in integer nano-dollars. Once the next period begins, only what was
 * reserved in it still knows it. Used by `budget.ts` alone. Pure.
 */

import { BUDGET_WARNING_PERCENT, type Period } from '../domain/settings.ts'
import { endOf, startOf } from './period.ts'

export interface PeriodUsage {
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

/** The period in force, and the one that was before it: a clock that was wrong for a while comes back to that. */
export interface BudgetUsage {
  readonly current: PeriodUsage
  readonly previous: PeriodUsage | null
}

export const openUsage = (
  period: Period,
  wallMs: number,
  spentNanoUsd: number,
  isProvisional: boolean,
): BudgetUsage => ({
  current: openPeriod(period, wallMs, spentNanoUsd, isProvisional),
  previous: null,
})

const openPeriod = (period: Period, wallMs: number, spentNanoUsd: number, isProvisional: boolean): PeriodUsage => ({
  startMs: startOf(period, wallMs),
  endMs: endOf(period, wallMs),
  spentNanoUsd,
  reservedNanoUsd: 0,
  warned: 0,
  isProvisional,
})

/**
 * The usage once the clock says `wallMs`: the same while the period lasts, then a new one. A clock that steps over the end
 * of a period and back finds what was spent there; one that is set back further, to where nobody knows, takes along what
 * there is, until that period ends.
 */
export function rollOver(usage: BudgetUsage, period: Period, wallMs: number): BudgetUsage {
  const { current, previous } = usage
  if (isIn(current, wallMs)) return usage
  if (previous !== null && isIn(previous, wallMs)) return { current: previous, previous: current }
  const isBack = wallMs < current.startMs
  const taken = isBack ? current.spentNanoUsd + current.reservedNanoUsd : 0
  return { current: openPeriod(period, wallMs, taken, isBack && current.isProvisional), previous: current }
}

const isIn = ({ startMs, endMs }: PeriodUsage, wallMs: number) =>
  wallMs >= startMs && (endMs === null || wallMs < endMs)

export const hasRoom = (usage: PeriodUsage, limitNanoUsd: number, askedNanoUsd: number): boolean =>
  usage.spentNanoUsd + usage.reservedNanoUsd + askedNanoUsd <= limitNanoUsd

/** The highest of the percentages that are warned of which has been spent; 0 for none. */
export function toLevel(spentNanoUsd: number, limitNanoUsd: number): number {
  if (spentNanoUsd === 0) return 0
  if (spentNanoUsd >= limitNanoUsd) return 100
  // Most are far from it, and every request that settles asks.
  if (spentNanoUsd < limitNanoUsd / 2) return 0
  // Exact: a hundred times a large budget is beyond 2^53.
  const isNear = BigInt(spentNanoUsd) * 100n >= BigInt(limitNanoUsd) * BigInt(BUDGET_WARNING_PERCENT)
  return isNear ? BUDGET_WARNING_PERCENT : 0
}
