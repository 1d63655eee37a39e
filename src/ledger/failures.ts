/**
 * Which failures there were: requests that did not end well, by their error code, over time. Sums do not know codes, so that it goes as
 * far back as requests are kept one by one. It keeps its thread for as long as it takes, as `usage.ts` does.
 */
import { DAY_MS, HOUR_MS, hourOf } from '../domain/time.ts'
import type { FailureCell, FailureFilter, FailureReader } from '../store/report-store.ts'
import { createLimit, type Names, toIds } from './report-filter.ts'

export interface FailuresOptions {
  by: 'hour' | 'day'
  /** Half-open. Null: what the hour that runs has is in it. */
  sinceMs: number
  untilMs: number | null
  /** Keys and teams as people name them, or `system`. */
  where: FailureFilter
  /** The most codes that are told apart: the most frequent ones. Upstreams may make up as many as they like. */
  limit: number
  /** How long it may take. */
  limitMs: number
}

export interface FailuresReport {
  /** By time, and then by how many they are. */
  rows: FailureCell[]
  /** Requests with codes beyond `limit`. */
  rest: number
  /** What it covers: begins later than was asked for where requests are no longer there. */
  sinceMs: number
  untilMs: number
}

/** Codes that are counted: those that turn up behind them are of the rest. */
const MAX_CODES = 10_000

/** Throws `key_not_found`, `key_ambiguous`, `team_not_found`, `team_ambiguous`, and `report_too_long` beyond `limitMs`. */
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
