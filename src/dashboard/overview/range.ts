/** The span of time that the overview shows, in columns: hours of today, or whole days. Days are those of budgets: UTC. Pure. */
import { DAY_MS, dayOf, HOUR_MS } from '../../domain/time.ts'

export const RANGES = [
  ['today', 'Today'],
  ['7d', '7 days'],
  ['30d', '30 days'],
] as const

export type RangeName = (typeof RANGES)[number][0]

export interface Range {
  name: RangeName
  sinceMs: number
  /** How much time a column has, and what the reports call it. */
  stepMs: number
  by: 'hour' | 'day'
  /** Beginnings of its columns, those included that nothing was asked in; the last one runs. */
  columns: readonly number[]
  /** The same span once more before it, as far into its last column. */
  before: { sinceMs: number; untilMs: number; text: string }
}

export const toRangeName = (text: string | null): RangeName => RANGES.find(([name]) => name === text)?.[0] ?? '7d'

const DAYS = { today: 1, '7d': 7, '30d': 30 } as const
const BEFORE = { today: 'than yesterday by now', '7d': 'than the 7 days before', '30d': 'than the 30 days before' }

export function toRange(name: RangeName, nowMs: number): Range {
  const spanMs = DAYS[name] * DAY_MS
  const sinceMs = dayOf(nowMs) + DAY_MS - spanMs
  const stepMs = name === 'today' ? HOUR_MS : DAY_MS
  return {
    ...{ name, sinceMs, stepMs, by: name === 'today' ? 'hour' : 'day' },
    columns: Array.from({ length: spanMs / stepMs }, (_, at) => sinceMs + at * stepMs).filter((ms) => ms <= nowMs),
    before: { sinceMs: sinceMs - spanMs, untilMs: nowMs - spanMs, text: BEFORE[name] },
  }
}
