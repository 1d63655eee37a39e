/** How the budget of a key or a team stands in its current period. Lists show it; admission has its own count. Pure. */
import { BUDGET_WARNING_PERCENT, type Budget } from '../domain/settings.ts'
import { endOf, startOf } from '../limits/period.ts'

export interface BudgetStanding {
  budget: Budget
  /** Spent in the current period, what requests under way have reserved included. */
  spentNanoUsd: number
  /** Whole percent of the budget, rounded down. */
  percent: number
  /** When the next period begins; null for a budget in total. */
  resetMs: number | null
  state: 'ok' | 'warning' | 'spent'
}

/**
 * Works out how a budget stands; null where there is none.
 *
 * @param spentSince nano-dollars spent since the first ms of a period.
 */
export function toStanding(
  budget: Budget | null,
  spentSince: (fromMs: number) => number,
  nowMs: number,
): BudgetStanding | null {
  if (budget === null) return null
  const spentNanoUsd = spentSince(startOf(budget.period, nowMs))
  // BigInt: a hundred times a large sum is beyond what a number holds exactly. A budget of nothing is spent.
  const percent = budget.nanoUsd > 0 ? Number((BigInt(spentNanoUsd) * 100n) / BigInt(budget.nanoUsd)) : 100
  const state = percent >= 100 ? 'spent' : percent >= BUDGET_WARNING_PERCENT ? 'warning' : 'ok'
  return { budget, spentNanoUsd, percent, resetMs: endOf(budget.period, nowMs), state }
}
