import { BUDGET_WARNING_PERCENT, type Budget, PERIODS, type Period } from '../domain/limits.ts'
import type { Spender } from '../domain/snapshot.ts'
import { DAY_MS, HOUR_MS, hourOf } from '../domain/time.ts'
import { type InForce, MAX_STEP_MS, toInForce } from '../limits/period.ts'
import type { LastRefusal, Spending, SpendReader } from '../store/report-store.ts'

export interface BudgetStatus {
  budget: Budget
  /** In the current period, including reservations of running requests. */
  spentNanoUsd: number
  /** Whole percent of the budget, rounded down. */
  percent: number
  /** Start of the next period; null for a total budget. */
  resetMs: number | null
  state: 'ok' | 'warning' | 'spent'
}

export function toBudgetStatus(budget: Budget, spentNanoUsd: number, resetMs: number | null): BudgetStatus {
  // BigInt: a hundred times a large sum isn't exact as a number. A zero budget is spent.
  const percent = budget.nanoUsd > 0 ? Number((BigInt(spentNanoUsd) * 100n) / BigInt(budget.nanoUsd)) : 100
  const state = percent >= 100 ? 'spent' : percent >= BUDGET_WARNING_PERCENT ? 'warning' : 'ok'
  return { budget, spentNanoUsd, percent, resetMs, state }
}

export interface SpendStatus extends Pick<Spending, 'lastUse'> {
  budget: BudgetStatus | null
  /** Nano-dollars in the calendar month (UTC) and in total, including reservations of running requests. */
  monthNanoUsd: number
  totalNanoUsd: number
  /** The last refused request, and the number in the last 24 hours; null if there never was one. */
  refusal: LastRefusal | null
}

interface Owner {
  id: string
  budget: Budget | null
}

/** By ID, for the current periods. Can be posted to a thread. */
export interface Spent {
  inForce: AllInForce
  spending: ReadonlyMap<string, Spending>
  refused: ReadonlyMap<string, LastRefusal>
}

/**
 * Excludes what is still in the ledger's journal.
 * @param id the only one needed.
 */
export async function readSpent(
  reader: SpendReader,
  kind: Spender['kind'],
  nowMs: number,
  id?: string,
): Promise<Spent> {
  const inForce = toAllInForce(nowMs, await reader.latestHour(nowMs + MAX_STEP_MS))
  const refused = await reader.refused(kind, hourOf(nowMs) - DAY_MS + HOUR_MS, id)
  return { inForce, spending: await reader.spending(kind, inForce, id), refused }
}

export const toSpendStatuses =
  ({ inForce, spending, refused }: Spent) =>
  (owner: Owner): SpendStatus =>
    toSpendStatus(owner, spending.get(owner.id) ?? NOTHING, inForce, refused.get(owner.id))

export const readSpendStatuses = async (...asked: Parameters<typeof readSpent>) =>
  toSpendStatuses(await readSpent(...asked))

/** Of a newly created key or team. */
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
  refusal: LastRefusal | null = null,
): SpendStatus => ({
  budget: budget && toBudgetStatus(budget, nanoUsd[budget.period], inForce[budget.period].resetMs),
  monthNanoUsd: nanoUsd.month,
  totalNanoUsd: nanoUsd.total,
  lastUse,
  refusal,
})
