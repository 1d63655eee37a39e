/** When it is used: requests of each hour of seven days. Pure. */
import { DAY_MS, dayOf, HOUR_MS } from '../../domain/time.ts'
import type { UsageFields } from './series.ts'

export const HEAT_DAYS = 7
/** Shades beside the one of nothing. */
const SHADES = 5

export interface HeatDay {
  /** Its beginning. */
  ms: number
  /** Null for those that have not begun. */
  hours: readonly (number | null)[]
}

/** The days that end with the last one of a range. @param endMs of the range; null where it goes on. */
export function toHeatSpan(endMs: number | null, nowMs: number): { sinceMs: number; untilMs: number | null } {
  const lastMs = dayOf(endMs === null ? nowMs : endMs - 1)
  const untilMs = lastMs + DAY_MS
  return { sinceMs: untilMs - HEAT_DAYS * DAY_MS, untilMs: untilMs > nowMs ? null : untilMs }
}

/** @param rows by hour. */
export function toHeat(rows: readonly UsageFields[], sinceMs: number, nowMs: number): HeatDay[] {
  const found = new Map(rows.map((row) => [Number(row.hour_ms), Number(row.requests)]))
  return Array.from({ length: HEAT_DAYS }, (_, day) => ({
    ms: sinceMs + day * DAY_MS,
    hours: Array.from({ length: 24 }, (_, hour) => {
      const ms = sinceMs + day * DAY_MS + hour * HOUR_MS
      return ms > nowMs ? null : (found.get(ms) ?? 0)
    }),
  }))
}

/** How dark an hour is beside the busiest one: 0 for nothing, up to SHADES. */
export const toShade = (requests: number, most: number): number =>
  requests === 0 ? 0 : Math.max(1, Math.ceil((requests / most) * SHADES))

export interface Busiest {
  ms: number
  requests: number
}

/** Null where nothing was asked. */
export function toBusiest(days: readonly HeatDay[]): Busiest | null {
  let busiest: Busiest | null = null
  for (const { ms, hours } of days)
    for (const [hour, requests] of hours.entries())
      if (requests !== null && requests > (busiest?.requests ?? 0)) busiest = { ms: ms + hour * HOUR_MS, requests }
  return busiest
}
