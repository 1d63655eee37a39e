/** How the budget of a key or a team stands in its current period. Lists show it; admission has its own count. Pure. */
import { BUDGET_WARNING_PERCENT, type Budget } from '../domain/settings.ts'
import { MOST_STEP_MS, toInForce } from '../limits/period.ts'

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

/** What a ledger says of the owner of a budget. */
export interface Past {
  /** Nano-dollars spent from `fromMs` on and before `untilMs`. */
  spentIn(span: { fromMs: number; untilMs: number }): number
  /** The newest hour before `untilMs` that anybody has a request of, as its first ms. */
  latestHour(untilMs: number): number
}

/** Of who is too new to have spent anything. */
export const NO_PAST: Past = { spentIn: () => 0, latestHour: () => 0 }

/** Works out how a budget stands; null where there is none. */
export function toStanding(budget: Budget | null, past: Past, nowMs: number): BudgetStanding | null {
  if (budget === null) return null
  const inForce = toInForce(budget.period, nowMs, past.latestHour(nowMs + MOST_STEP_MS))
  const spentNanoUsd = past.spentIn(inForce)
  // BigInt: a hundred times a large sum is beyond what a number holds exactly. A budget of nothing is spent.
  const percent = budget.nanoUsd > 0 ? Number((BigInt(spentNanoUsd) * 100n) / BigInt(budget.nanoUsd)) : 100
  const state = percent >= 100 ? 'spent' : percent >= BUDGET_WARNING_PERCENT ? 'warning' : 'ok'
  return { budget, spentNanoUsd, percent, resetMs: inForce.resetMs, state }
}
