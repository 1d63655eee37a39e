/** What a key took day by day, out of a report of usage by key and day. Days are those of budgets: UTC. Pure. */
import { DAY_MS } from '../../domain/time.ts'

export const DAYS = 30

export interface Day {
  /** Its beginning. */
  ms: number
  requests: number
  costNanoUsd: number
}

type Row = Readonly<Record<string, string | number | null>>

/** For each key that was used, its last days, oldest first, those without a request included. */
export function toDays(rows: readonly Row[], nowMs: number): Map<string, Day[]> {
  const firstMs = Math.floor(nowMs / DAY_MS) * DAY_MS - (DAYS - 1) * DAY_MS
  const found = new Map<string, Day[]>()
  for (const { key_id: id, day_ms: ms, requests, cost_nano_usd: costNanoUsd } of rows) {
    const days = found.getOrInsertComputed(String(id), () => emptyDays(firstMs))
    const day = days[(Number(ms) - firstMs) / DAY_MS]
    if (day) Object.assign(day, { requests: Number(requests), costNanoUsd: Number(costNanoUsd) })
  }
  return found
}

export const emptyDays = (firstMs: number): Day[] =>
  Array.from({ length: DAYS }, (_, day) => ({ ms: firstMs + day * DAY_MS, requests: 0, costNanoUsd: 0 }))
