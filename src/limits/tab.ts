/** What one period of one budget has come to, in integer nano-dollars. Once the next begins, only holds know it. Pure. */
import { endOf } from '../store/period.ts'
import { BUDGET_WARNING_PERCENT, type Period } from '../store/types.ts'

export interface Tab {
  /** The first ms of the period after; null where there is none. */
  readonly endMs: number | null
  spentNanoUsd: number
  reservedNanoUsd: number
  /** The percentage that was warned of last. */
  warned: number
  /** Whether nobody was asked what was spent before it was opened. */
  readonly isProvisional: boolean
}

export const toTab = (period: Period, wallMs: number, spentNanoUsd: number, isProvisional: boolean): Tab => ({
  endMs: endOf(period, wallMs),
  spentNanoUsd,
  reservedNanoUsd: 0,
  warned: 0,
  isProvisional,
})

/** The tab in force: a new one once its period is over. A clock that steps back never brings an old one back. */
export const tabAt = (tab: Tab, period: Period, wallMs: number): Tab =>
  tab.endMs !== null && wallMs >= tab.endMs ? toTab(period, wallMs, 0, false) : tab

export const hasRoom = (tab: Tab, limitNanoUsd: number, askedNanoUsd: number): boolean =>
  tab.spentNanoUsd + tab.reservedNanoUsd + askedNanoUsd <= limitNanoUsd

/** The highest of the percentages that are warned of which has been spent; 0 for none. */
export function toLevel(spentNanoUsd: number, limitNanoUsd: number): number {
  if (spentNanoUsd === 0) return 0
  if (spentNanoUsd >= limitNanoUsd) return 100
  // Exact: a hundred times a large budget is beyond 2^53.
  const isNear = BigInt(spentNanoUsd) * 100n >= BigInt(limitNanoUsd) * BigInt(BUDGET_WARNING_PERCENT)
  return isNear ? BUDGET_WARNING_PERCENT : 0
}
