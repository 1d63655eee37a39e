/** When a budget's period began and when the next one begins. Days, weeks (from Monday) and months are UTC. Pure. */
import type { Period } from '../domain/settings.ts'

const DAY_MS = 86_400_000
/** 1970-01-05, a Monday. */
const FIRST_MONDAY_MS = 4 * DAY_MS

/** The first ms of the period that `atMs` is in; 0 for `total`. */
export function startOf(period: Period, atMs: number): number {
  if (period === 'total') return 0
  if (period === 'day') return Math.floor(atMs / DAY_MS) * DAY_MS
  if (period === 'week') {
    const weekMs = 7 * DAY_MS
    return Math.floor((atMs - FIRST_MONDAY_MS) / weekMs) * weekMs + FIRST_MONDAY_MS
  }
  const date = new Date(atMs)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth())
}

/** The first ms of the period after; null for `total`, which never begins anew. */
export function endOf(period: Period, atMs: number): number | null {
  if (period === 'total') return null
  const startMs = startOf(period, atMs)
  if (period === 'day') return startMs + DAY_MS
  if (period === 'week') return startMs + 7 * DAY_MS
  const date = new Date(startMs)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)
}
