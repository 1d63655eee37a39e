/** What a budget has come to in its period, and how it gets into the next one. `budget.ts` keeps one of each. Pure. */
import type { Budget, Period } from '../domain/limits.ts'
import type { Spender } from '../domain/snapshot.ts'
import type { BudgetReservation } from './budget-reservation.ts'
import { endOf, startOf } from './period.ts'

/** What one period of one budget has come to. Once the next period begins, only what was reserved in it still knows it. */
export interface PeriodUsage {
  readonly startMs: number
  /** The first ms of the period after; null where there is none. */
  readonly endMs: number | null
  spentNanoUsd: number
  /** Held by requests under way. */
  reservedNanoUsd: number
  /** Those of them that hold the worst case, and may hold less once they are counted. */
  readonly uncounted: Set<BudgetReservation>
  /** The percentage that was warned of last. */
  warned: number
  /** Whether nobody was asked what was spent before it began. */
  readonly isProvisional: boolean
  /**
   * Requests that were under way before this was known of, by their ids, and what each of them is in `spentNanoUsd` with: what
   * they have reserved, until they end.
   */
  readonly underWay: Map<string, number>
}

/** A budget as it is configured, and what it has come to. */
export interface BudgetState {
  readonly spender: Spender
  readonly name: string
  readonly budget: Budget
  /** Of the period in force. */
  usage: PeriodUsage
  /** Of the period that was in force before it: a clock that was far ahead for a while comes back to that. */
  previous: PeriodUsage | null
}

export const openPeriod = (
  period: Period,
  atMs: number,
  spentNanoUsd: number,
  isProvisional: boolean,
  underWay = new Map<string, number>(),
): PeriodUsage => ({
  startMs: startOf(period, atMs),
  endMs: endOf(period, atMs),
  spentNanoUsd,
  reservedNanoUsd: 0,
  uncounted: new Set(),
  warned: 0,
  isProvisional,
  underWay,
})

/**
 * Has a budget be in the period of `atMs`, which only goes back where the clock had been far ahead. One that was for a while
 * finds what was spent before; one that is set back to where nobody knows takes along what there is, until that period ends.
 */
export function rollOver(state: BudgetState, atMs: number): void {
  const { usage, previous, budget } = state
  if (isIn(usage, atMs)) return
  state.previous = usage
  if (previous !== null && isIn(previous, atMs)) {
    state.usage = previous
    return
  }
  const isBack = atMs < usage.startMs
  const taken = isBack ? usage.spentNanoUsd + usage.reservedNanoUsd : 0
  state.usage = openPeriod(budget.period, atMs, taken, isBack && usage.isProvisional)
}

const isIn = ({ startMs, endMs }: PeriodUsage, atMs: number) => atMs >= startMs && (endMs === null || atMs < endMs)
