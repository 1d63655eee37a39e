/** What one period of one budget has come to, in integer nano-dollars. Once the next begins, only holds know it. Pure. */

import { BUDGET_WARNING_PERCENT, type Period } from '../domain/settings.ts'
import { endOf, startOf } from './period.ts'

export interface Tab {
  readonly startMs: number
  /** The first ms of the period after; null where there is none. */
  readonly endMs: number | null
  spentNanoUsd: number
  reservedNanoUsd: number
  /** The percentage that was warned of last. */
  warned: number
  /** Whether nobody was asked what was spent before it was opened. */
  readonly isProvisional: boolean
}

/** The tab in force, and the one that was before it: a clock that was wrong for a while comes back to that. */
export interface Tabs {
  readonly present: Tab
  readonly before: Tab | null
}

export const toTabs = (period: Period, wallMs: number, spentNanoUsd: number, isProvisional: boolean): Tabs => ({
  present: toTab(period, wallMs, spentNanoUsd, isProvisional),
  before: null,
})

const toTab = (period: Period, wallMs: number, spentNanoUsd: number, isProvisional: boolean): Tab => ({
  startMs: startOf(period, wallMs),
  endMs: endOf(period, wallMs),
  spentNanoUsd,
  reservedNanoUsd: 0,
  warned: 0,
  isProvisional,
})

/**
 * The tabs once the clock says `wallMs`: the same while the period lasts, then a new one. A clock that steps over the end
 * of a period and back finds what was spent there; one that is set back further, to where nobody knows, takes along what
 * there is, until that period ends.
 */
export function turn(tabs: Tabs, period: Period, wallMs: number): Tabs {
  const { present, before } = tabs
  if (isIn(present, wallMs)) return tabs
  if (before !== null && isIn(before, wallMs)) return { present: before, before: present }
  const isBack = wallMs < present.startMs
  const taken = isBack ? present.spentNanoUsd + present.reservedNanoUsd : 0
  return { present: toTab(period, wallMs, taken, isBack && present.isProvisional), before: present }
}

const isIn = ({ startMs, endMs }: Tab, wallMs: number) => wallMs >= startMs && (endMs === null || wallMs < endMs)

export const hasRoom = (tab: Tab, limitNanoUsd: number, askedNanoUsd: number): boolean =>
  tab.spentNanoUsd + tab.reservedNanoUsd + askedNanoUsd <= limitNanoUsd

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
