/**
 * How keys and teams stand: what each has spent this month and in total, how its budget stands, and when it was last used. Lists
 * show it, and whoever shows one. Read once for all of them, since there may be thousands.
 */
import { type Budget, PERIODS, type Period } from '../domain/settings.ts'
import { type InForce, MOST_STEP_MS, toInForce } from '../limits/period.ts'
import type { LedgerReader, Scope, Spending } from '../store/ledger-store.ts'
import { type BudgetStanding, NO_PAST, toStanding } from './budget.ts'

export interface Standing extends Pick<Spending, 'lastUse'> {
  /** Null where there is none. */
  budget: BudgetStanding | null
  /** Nano-dollars of the calendar month (UTC) and ever, what requests under way have reserved included. */
  monthNanoUsd: number
  totalNanoUsd: number
}

interface Owner {
  id: string
  budget: Budget | null
}

/**
 * Reads how all keys, or all teams, stand; what waits in the ledger's journal is not in it.
 *
 * @param id of the only one that will be asked for.
 */
export function readStandings(
  reader: Pick<LedgerReader, 'spending' | 'latestHour'>,
  kind: Scope['kind'],
  nowMs: number,
  id?: string,
): (owner: Owner) => Standing {
  const latestMs = reader.latestHour(nowMs + MOST_STEP_MS)
  const inForce = PERIODS.map((period) => [period, toInForce(period, nowMs, latestMs)] as const)
  const spending = reader.spending(kind, Object.fromEntries(inForce) as Record<Period, InForce>, id)
  return (owner) => {
    const { budget } = owner
    const { nanoUsd, lastUse } = spending.get(owner.id) ?? NOTHING
    const past = { spentIn: () => (budget === null ? 0 : nanoUsd[budget.period]), latestHour: () => latestMs }
    const { month, total } = nanoUsd
    return { budget: toStanding(budget, past, nowMs), monthNanoUsd: month, totalNanoUsd: total, lastUse }
  }
}

const NOTHING: Spending = { nanoUsd: { day: 0, week: 0, month: 0, total: 0 }, lastUse: null }

/** How a key or a team stands that has just been made. */
export const toFirstStanding = ({ budget }: Pick<Owner, 'budget'>, nowMs: number): Standing => ({
  budget: toStanding(budget, NO_PAST, nowMs),
  monthNanoUsd: 0,
  totalNanoUsd: 0,
  lastUse: null,
})
