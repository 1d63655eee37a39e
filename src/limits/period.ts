/**
 * When a budget's period began and when the next one begins. Days, weeks (from Monday) and months are UTC. Used by the
 * limiter and by lists of budgets. Pure.
 */
import type { Period } from '../domain/settings.ts'

const DAY_MS = 86_400_000
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
