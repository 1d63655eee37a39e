/** When a budget will be spent at its current pace. */
import type { Period } from '../domain/limits.ts'
import { DAY_MS } from '../domain/time.ts'

interface Budgeted {
  budget_nano_usd: number | null
  budget_period: Period | null
  spent_nano_usd: number | null
  budget_reset_ms: number | null
}

export interface Forecast {
  /** Projected spend at the end of the period. */
  atEndNanoUsd: number
  /** When the budget runs out; null if it lasts. */
  emptyMs: number | null
}

/** Fraction of the period that must have passed for a forecast. */
const EARLIEST = 0.05

/** Null without a resetting period, too early in it, or if the budget is spent. */
export function toForecast(of: Budgeted, nowMs: number): Forecast | null {
  const { budget_nano_usd: budget, budget_period: period, spent_nano_usd: spent, budget_reset_ms: endMs } = of
  if (budget === null || spent === null || period === null || endMs === null) return null
  const startMs = toStart(period, endMs)
  if (startMs === null || spent >= budget) return null
  const passed = (nowMs - startMs) / (endMs - startMs)
  if (passed < EARLIEST || passed > 1) return null
  const atEndNanoUsd = Math.round(spent / passed)
  const emptyMs = atEndNanoUsd > budget ? Math.round(nowMs + ((budget - spent) * (nowMs - startMs)) / spent) : null
  return { atEndNanoUsd, emptyMs }
}

function toStart(period: Period, endMs: number): number | null {
  if (period === 'day') return endMs - DAY_MS
  if (period === 'week') return endMs - 7 * DAY_MS
  if (period === 'total') return null
  const end = new Date(endMs)
  return Date.UTC(end.getUTCFullYear(), end.getUTCMonth() - 1, end.getUTCDate())
}
