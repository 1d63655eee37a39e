/**
 * The periods of budgets: when one began and when the next one begins, which one is in force whatever the clock does, and what
 * each has come to. Days, weeks (from Monday) and months are UTC. Used by the limiter and by lists of budgets. Pure.
 */

import type { Budget, Period } from '../domain/settings.ts'
import type { Spender } from '../domain/snapshot.ts'
import { DAY_MS } from '../domain/time.ts'
import type { BudgetReservation } from './budget-reservation.ts'

const WEEK_MS = 7 * DAY_MS
/** 1970-01-05, a Monday. */
const FIRST_MONDAY_MS = 4 * DAY_MS

const monthOf = (atMs: number, monthsLater: number) => {
  const date = new Date(atMs)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + monthsLater)
}

/** A period that is added does not compile before it has its line here, and throws where a database names it all the same. */
const RULES: Record<Period, { start(atMs: number): number; end(startMs: number): number | null }> = {
  day: { start: (atMs) => Math.floor(atMs / DAY_MS) * DAY_MS, end: (startMs) => startMs + DAY_MS },
  week: {
    start: (atMs) => Math.floor((atMs - FIRST_MONDAY_MS) / WEEK_MS) * WEEK_MS + FIRST_MONDAY_MS,
    end: (startMs) => startMs + WEEK_MS,
  },
  month: { start: (atMs) => monthOf(atMs, 0), end: (startMs) => monthOf(startMs, 1) },
  total: { start: () => 0, end: () => null },
}

/** The first ms of the period that `atMs` is in; 0 for `total`. */
export const startOf = (period: Period, atMs: number): number => RULES[period].start(atMs)

/** The first ms of the period after; null for `total`, which never begins anew. */
export const endOf = (period: Period, atMs: number): number | null => RULES[period].end(startOf(period, atMs))

/**
 * So far at most a clock goes back and the period that it had reached stays. One that goes back further was wrong before:
 * what it had reached by mistake must not be in force until it comes, which may be in a hundred years.
 */
export const MOST_STEP_MS = 7 * DAY_MS

/**
 * The time that budgets go by: the latest that the clock has shown, however it was set since, so that nothing is granted a
 * second time; but for a clock that has gone back by more than MOST_STEP_MS, which is believed.
 *
 * @param latestMs the latest time that is known of.
 */
export const toBudgetMs = (wallMs: number, latestMs: number): number =>
  latestMs - wallMs > MOST_STEP_MS ? wallMs : Math.max(wallMs, latestMs)

/** Which spending counts for the period in force, and when it ends. */
export interface InForce {
  fromMs: number
  /** The first ms of the period after; beyond all times for `total`. */
  untilMs: number
  resetMs: number | null
}

/**
 * Finds the period in force by what the ledger knows. Where the clock was set back, what was spent by it since counts too: it
 * was charged on the period that stayed.
 *
 * @param latestMs the latest time that the ledger has a request of, before `wallMs + MOST_STEP_MS`.
 */
export function toInForce(period: Period, wallMs: number, latestMs: number): InForce {
  const resetMs = endOf(period, toBudgetMs(wallMs, latestMs))
  return { fromMs: startOf(period, wallMs), untilMs: resetMs ?? Number.MAX_SAFE_INTEGER, resetMs }
}

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
