/**
 * How keys and teams stand: what each has spent this month and in total, how its budget stands, and when it was last used. Lists
 * show it, and whoever shows one. Read once for all of them, since there may be thousands.
 */
import { BUDGET_WARNING_PERCENT, type Budget, PERIODS, type Period } from '../domain/limits.ts'
import type { Spender } from '../domain/snapshot.ts'
import { type InForce, MAX_STEP_MS, toInForce } from '../limits/period.ts'
import type { LedgerReader, Spending } from '../store/ledger-store.ts'

export interface BudgetStatus {
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
export function toBudgetStatus(budget: Budget, spentNanoUsd: number, resetMs: number | null): BudgetStatus {
  // BigInt: a hundred times a large sum is beyond what a number holds exactly. A budget of nothing is spent.
  const percent = budget.nanoUsd > 0 ? Number((BigInt(spentNanoUsd) * 100n) / BigInt(budget.nanoUsd)) : 100
  const state = percent >= 100 ? 'spent' : percent >= BUDGET_WARNING_PERCENT ? 'warning' : 'ok'
  return { budget, spentNanoUsd, percent, resetMs, state }
}

export interface SpendStatus extends Pick<Spending, 'lastUse'> {
  /** Null where there is none. */
  budget: BudgetStatus | null
  /** Nano-dollars of the calendar month (UTC) and ever, what requests under way have reserved included. */
  monthNanoUsd: number
  totalNanoUsd: number
}

interface Owner {
  id: string
  budget: Budget | null
}

/** What keys or teams have spent, by their ids, and in which periods. Can be posted as it is. */
export interface Spent {
  inForce: AllInForce
  spending: ReadonlyMap<string, Spending>
}

/**
 * Reads what all keys, or all teams, have spent; what waits in the ledger's journal is not in it.
 *
 * @param id of the only one that will be asked for.
 */
export function readSpent(
  reader: Pick<LedgerReader, 'spending' | 'latestHour'>,
  kind: Spender['kind'],
  nowMs: number,
  id?: string,
): Spent {
  const inForce = toAllInForce(nowMs, reader.latestHour(nowMs + MAX_STEP_MS))
  return { inForce, spending: reader.spending(kind, inForce, id) }
}

/** From what they have spent to how they stand. */
export const toSpendStatuses =
  ({ inForce, spending }: Spent) =>
  (owner: Owner): SpendStatus =>
    toSpendStatus(owner, spending.get(owner.id) ?? NOTHING, inForce)

/** Both at once. */
export const readSpendStatuses = (...asked: Parameters<typeof readSpent>) => toSpendStatuses(readSpent(...asked))

/** How a key or a team stands that has just been made. */
export const toFirstSpendStatus = (owner: Pick<Owner, 'budget'>, nowMs: number): SpendStatus =>
  toSpendStatus(owner, NOTHING, toAllInForce(nowMs, nowMs))

const NOTHING: Spending = { nanoUsd: { day: 0, week: 0, month: 0, total: 0 }, lastUse: null }

type AllInForce = Readonly<Record<Period, InForce>>

const toAllInForce = (nowMs: number, latestMs: number) =>
  Object.fromEntries(PERIODS.map((period) => [period, toInForce(period, nowMs, latestMs)])) as AllInForce

const toSpendStatus = (
  { budget }: Pick<Owner, 'budget'>,
  { nanoUsd, lastUse }: Spending,
  inForce: AllInForce,
): SpendStatus => ({
  budget: budget && toBudgetStatus(budget, nanoUsd[budget.period], inForce[budget.period].resetMs),
  monthNanoUsd: nanoUsd.month,
  totalNanoUsd: nanoUsd.total,
  lastUse,
})
