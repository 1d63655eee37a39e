/**
 * Budget periods in UTC: their start and end, and the current period, even if the clock is set back. Weeks start on
 * Monday.
 */
import type { Period } from '../domain/limits.ts'
import { DAY_MS } from '../domain/time.ts'

const WEEK_MS = 7 * DAY_MS
const FIRST_MONDAY_MS = 4 * DAY_MS

const monthOf = (atMs: number, monthsLater: number) => {
  const date = new Date(atMs)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + monthsLater)
}

/** Throws for a period that a newer version has stored. */
const RULES: Record<Period, { start(atMs: number): number; end(startMs: number): number | null }> = {
  day: { start: (atMs) => Math.floor(atMs / DAY_MS) * DAY_MS, end: (startMs) => startMs + DAY_MS },
  week: {
    start: (atMs) => Math.floor((atMs - FIRST_MONDAY_MS) / WEEK_MS) * WEEK_MS + FIRST_MONDAY_MS,
    end: (startMs) => startMs + WEEK_MS,
  },
  month: { start: (atMs) => monthOf(atMs, 0), end: (startMs) => monthOf(startMs, 1) },
  total: { start: () => 0, end: () => null },
}

/** In ms; 0 for `total`. */
export const startOf = (period: Period, atMs: number): number => RULES[period].start(atMs)

/** Start of the next period, ms; null for `total`. */
export const endOf = (period: Period, atMs: number): number | null => RULES[period].end(startOf(period, atMs))

/** If the clock goes back by more, it was wrong before, so the current period must not stay. */
export const MAX_STEP_MS = 7 * DAY_MS

/**
 * The time for budgets: the latest time of the clock, so that setting it back grants nothing twice. If the clock went
 * back by more than MAX_STEP_MS, the current time.
 * @param latestMs the latest known time.
 */
export const toBudgetMs = (wallMs: number, latestMs: number): number =>
  latestMs - wallMs > MAX_STEP_MS ? wallMs : Math.max(wallMs, latestMs)

export interface InForce {
  fromMs: number
  /** Start of the next period, ms; beyond all times for `total`. */
  untilMs: number
  resetMs: number | null
}

/**
 * If the clock was set back, spend since then counts too, because it was charged to the period that stayed.
 * @param latestMs the latest time of a request in the ledger, before `wallMs + MAX_STEP_MS`.
 */
export function toInForce(period: Period, wallMs: number, latestMs: number): InForce {
  const resetMs = endOf(period, toBudgetMs(wallMs, latestMs))
  return { fromMs: startOf(period, wallMs), untilMs: resetMs ?? Number.MAX_SAFE_INTEGER, resetMs }
}
