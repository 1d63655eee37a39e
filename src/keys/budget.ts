/** How the budget of a key or a team stands in its current period. `standing.ts` reads it; admission has its own count. Pure. */
import { BUDGET_WARNING_PERCENT, type Budget } from '../domain/limits.ts'
import { toUsd } from '../domain/usage.ts'

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
 * Works out how a budget stands.
 *
 * @param spentNanoUsd in the period in force.
 * @param resetMs when that ends.
 */
export function toBudgetStanding(budget: Budget, spentNanoUsd: number, resetMs: number | null): BudgetStanding {
  // BigInt: a hundred times a large sum is beyond what a number holds exactly. A budget of nothing is spent.
  const percent = budget.nanoUsd > 0 ? Number((BigInt(spentNanoUsd) * 100n) / BigInt(budget.nanoUsd)) : 100
  const state = percent >= 100 ? 'spent' : percent >= BUDGET_WARNING_PERCENT ? 'warning' : 'ok'
  return { budget, spentNanoUsd, percent, resetMs, state }
}

/** Such as `$20/month`, or `$5 in total`. */
export const toBudgetText = ({ nanoUsd, period }: Budget) =>
  `${toMoney(nanoUsd)}${period === 'total' ? ' in total' : `/${period}`}`

/** Exact dollars, to the cent at least where they are not whole: `$20`, `$0.10`. */
function toMoney(nanoUsd: number): string {
  const [whole = '', fraction] = toUsd(nanoUsd).split('.')
  return `$${whole}${fraction === undefined ? '' : `.${fraction.padEnd(2, '0')}`}`
}
