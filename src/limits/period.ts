/**
 * The periods of budgets: when one began and when the next one begins, and which one is in force whatever the clock does. Days,
 * weeks (from Monday) and months are UTC. Used by the limiter and by lists of budgets. Pure.
 */
import type { Period } from '../domain/limits.ts'
import { DAY_MS } from '../domain/time.ts'

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
export const MAX_STEP_MS = 7 * DAY_MS

/**
 * The time that budgets go by: the latest that the clock has shown, however it was set since, so that nothing is granted a
 * second time; but for a clock that has gone back by more than MAX_STEP_MS, which is believed.
 *
 * @param latestMs the latest time that is known of.
 */
export const toBudgetMs = (wallMs: number, latestMs: number): number =>
  latestMs - wallMs > MAX_STEP_MS ? wallMs : Math.max(wallMs, latestMs)

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
 * @param latestMs the latest time that the ledger has a request of, before `wallMs + MAX_STEP_MS`.
 */
export function toInForce(period: Period, wallMs: number, latestMs: number): InForce {
  const resetMs = endOf(period, toBudgetMs(wallMs, latestMs))
  return { fromMs: startOf(period, wallMs), untilMs: resetMs ?? Number.MAX_SAFE_INTEGER, resetMs }
}
