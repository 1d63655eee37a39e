/**
 * Failed requests by error code over time. Totals don't have codes, so reports cover only the time for which requests are kept. Blocks its thread, like
 * `usage.ts`.
 */
import { DAY_MS, HOUR_MS, hourOf } from '../domain/time.ts'
import type { FailureCell, FailureFilter, FailureReader } from '../store/report-store.ts'
import { createLimit, type Names, toIds } from './report-filter.ts'

export interface FailuresOptions {
  by: 'hour' | 'day'
  /** Half-open; null: includes the current hour. */
  sinceMs: number
  untilMs: number | null
  /** Keys and teams by name or ID, or `system`. */
  where: FailureFilter
  /** Maximum codes, most frequent first: upstreams can invent any number. */
  limit: number
  limitMs: number
}

export interface FailuresReport {
  /** By time, then by count. */
  rows: FailureCell[]
  rest: number
  /** Actual period: starts later if older requests were removed. */
  sinceMs: number
  untilMs: number
}

/** Codes counted separately; later ones are counted as others. */
const MAX_CODES = 10_000

/** Throws `key_not_found`, `key_ambiguous`, `team_not_found`, `team_ambiguous`, and `report_too_long` after `limitMs`. */
export async function reportFailures(
  reader: FailureReader,
  names: Names,
  { by, sinceMs, untilMs, where, limit, limitMs }: FailuresOptions,
  { nowMs, clock }: { nowMs: number; clock: () => number },
): Promise<FailuresReport> {
  const filter = toIds(where, names, nowMs)
  const check = createLimit(limitMs, clock)
  const codes = new Map<string | null, { requests: number; cells: Map<string, FailureCell> }>()
  let rest = 0
  const keptFromMs = await reader.keptFromMs()
  const span = { fromMs: Math.max(sinceMs, keptFromMs), untilMs: untilMs ?? hourOf(nowMs) + HOUR_MS }
  for await (const page of reader.pages({ span, stepMs: by === 'hour' ? HOUR_MS : DAY_MS, where: filter })) {
    check()
    for (const cell of page) {
      const known = codes.get(cell.errorCode)
      const code = known ?? { requests: 0, cells: new Map() }
      if (!known && codes.size >= MAX_CODES) {
        rest += cell.requests
        continue
      }
      codes.set(cell.errorCode, code)
      code.requests += cell.requests
      const id = `${cell.atMs} ${cell.status}`
      const found = code.cells.get(id)
      if (found) found.requests += cell.requests
      else code.cells.set(id, { ...cell })
    }
  }
  const ranked = [...codes.values()].sort((a, b) => b.requests - a.requests)
  for (const { requests } of ranked.slice(limit)) rest += requests
  const rows = ranked.slice(0, limit).flatMap(({ cells }) => [...cells.values()])
  rows.sort((a, b) => a.atMs - b.atMs || b.requests - a.requests)
  return { rows, rest, sinceMs: span.fromMs, untilMs: span.untilMs }
}
