/** Where a budget is heading, if its period goes on as it has gone. Pure. */
import { DAY_MS } from '../../domain/time.ts'

export interface Budgeted {
  budget_nano_usd: number | null
  budget_period: 'day' | 'week' | 'month' | 'total' | null
  spent_nano_usd: number | null
  budget_reset_ms: number | null
}

export interface Forecast {
  /** What is spent of it when its period ends. */
  atEndNanoUsd: number
  /** When nothing is left; null where it lasts. */
  emptyMs: number | null
}

/** Before that share of a period has passed, a forecast would say more than anybody knows. */
const EARLIEST = 0.05

/** Null where there is no period that ends, or it is too early to say, or nothing is left already. */
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

function toStart(period: NonNullable<Budgeted['budget_period']>, endMs: number): number | null {
  if (period === 'day') return endMs - DAY_MS
  if (period === 'week') return endMs - 7 * DAY_MS
  if (period === 'total') return null
  const end = new Date(endMs)
  return Date.UTC(end.getUTCFullYear(), end.getUTCMonth() - 1, end.getUTCDate())
}

/** Those with a budget, the nearest to their end first. */
export const byUse = <Of extends Budgeted>(all: readonly Of[]): Of[] =>
  all.filter(({ budget_nano_usd: budget }) => budget !== null && budget > 0).sort((a, b) => toUse(b) - toUse(a))

const toUse = ({ budget_nano_usd: budget, spent_nano_usd: spent }: Budgeted) => (spent ?? 0) / (budget ?? 1)
