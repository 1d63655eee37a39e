/**
 * Compares what the ledger says with what the rollup says and what requests say with what their calls do, and looks for
 * what a start has not cleaned up. Only reads, so it runs beside a live server: each comparison of an hour is one
 * statement, consistent in itself, and no snapshot is held between them. `cli/audit.ts` calls it.
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { toFirstId } from '../domain/id.ts'
import { isServed } from '../store/sqlite/lock.ts'
import { type CallFinding, createCallCheck } from './audit-calls.ts'
import { HOUR_MS } from './rollup.ts'
import { filesIn, listSegments, REJECTED, readSegment } from './segment.ts'

export type Finding =
  | { kind: 'difference'; hour_ms: number; key_id: string; model: string; upstream: string; fields: Difference[] }
  | CallFinding
  | { kind: 'open'; table: 'requests' | 'calls'; instance: string; rows: number; oldest_ms: number }
  | { kind: 'spool'; file: string; records: number }
  | { kind: 'rejected'; file: string }

export interface Difference {
  field: string
  ledger: number
  rollup: number
}

export interface Audit {
  findings: Finding[]
  /** What is as it should be and still worth a word: spool segments that nobody misses. */
  notes: { file: string; records: number }[]
  /** Whole hours that were compared, settled requests in them, and what they cost. */
  hours: number
  requests: number
  costNanoUsd: number
}

/** Audits a data folder through a read-only connection to its database. */
export function auditUsage(sqlite: Database, dataFolder: string, nowMs: number): Audit {
  const found: Audit = { findings: [], notes: [], hours: 0, requests: 0, costNanoUsd: 0 }
  compareHours(sqlite, nowMs, found)
  // Rows first: an instance that is alive after they were read was alive when it was said to hold them.
  const open = sqlite.query<OpenRows, []>(OPEN_ROWS).all()
  const setting = readSetting(sqlite, 'instance')
  const living = isServed(dataFolder) ? setting : null
  for (const { instance, ...rows } of open) {
    if (instance !== living) found.findings.push({ kind: 'open', instance, ...rows })
  }
  lookAtSpool(join(dataFolder, 'spool'), living, found)
  return found
}

/** Sums of a cell, and what each is in terms of ledger rows. */
const SUMS: Readonly<Record<string, string>> = {
  requests: 'COUNT(*)',
  errors: `SUM(status IN ('failed', 'abandoned'))`,
  cuts: `SUM(status = 'cut')`,
  prompt_tokens: 'SUM(prompt_tokens)',
  cached_tokens: 'SUM(cached_tokens)',
  cache_write_tokens: 'SUM(cache_write_tokens)',
  completion_tokens: 'SUM(completion_tokens)',
  reasoning_tokens: 'SUM(reasoning_tokens)',
  cost_nano_usd: 'SUM(cost_nano_usd)',
  estimated_cost_nano_usd: 'SUM(CASE WHEN estimated THEN cost_nano_usd ELSE 0 END)',
}

/** Histograms of a cell, and the column of the ledger whose known values each counts. */
const HISTOGRAMS: Readonly<Record<string, string>> = {
  first_token_histogram: 'first_token_ms',
  duration_histogram: 'duration_ms',
}

const FIELDS = [...Object.keys(SUMS), ...Object.keys(HISTOGRAMS)]

/** -1 stands for a text that is no histogram. */
const countOf = (histogram: string) =>
  `CASE WHEN json_valid(${histogram}) THEN (SELECT COALESCE(SUM(value), 0) FROM json_each(${histogram})) ELSE -1 END`

/**
 * The time in an id is `created_ms`, so the primary key finds the rows of an hour. An id minted among thousands in one
 * millisecond runs a little ahead: the range is wider than the hour, and `created_ms` decides.
 */
const SLACK_MS = 60_000

/** Parameters: first id, id after the last, hour, hour after it. */
const COMPARE = `
  WITH ledger AS (
    SELECT key_id, model, upstream, ${Object.entries(SUMS)
      .map(([name, sum]) => `${sum} AS ${name}`)
      .concat(Object.entries(HISTOGRAMS).map(([name, column]) => `COUNT(${column}) AS ${name}`))
      .join(', ')}
    FROM requests WHERE id >= ?1 AND id < ?2 AND created_ms >= ?3 AND created_ms < ?4 AND status <> 'open'
    GROUP BY key_id, model, upstream
  ), rollup AS (
    SELECT key_id, model, upstream, ${Object.keys(SUMS)
      .concat(Object.keys(HISTOGRAMS).map((name) => `${countOf(name)} AS ${name}`))
      .join(', ')}
    FROM usage_hourly WHERE hour_ms = ?3
  )
  SELECT key_id, model, upstream,
    ${FIELDS.map((name) => `COALESCE(ledger.${name}, 0) AS ledger_${name}, COALESCE(rollup.${name}, 0) AS rollup_${name}`).join(', ')},
    ledger.requests IS NULL AS orphan
  FROM ledger FULL OUTER JOIN rollup USING (key_id, model, upstream)
  ORDER BY key_id, model, upstream`

type Cell = { key_id: string; model: string; upstream: string; orphan: number } & Record<string, string | number>

function compareHours(sqlite: Database, nowMs: number, found: Audit): void {
  const fromMs = Number(readSetting(sqlite, 'ledger_from') ?? Number.NaN)
  if (Number.isNaN(fromMs)) return
  const compare = sqlite.query<Cell, [string, string, number, number]>(COMPARE)
  const checkCalls = createCallCheck(sqlite)
  // A clock that was set back has left hours that are still to come.
  const latest = sqlite.query<{ hour: number | null }, []>('SELECT MAX(hour_ms) AS hour FROM usage_hourly').get()
  const untilMs = Math.max(nowMs, latest?.hour ?? 0)
  for (let hour = fromMs - (fromMs % HOUR_MS); hour <= untilMs; hour += HOUR_MS) {
    const end = hour + HOUR_MS
    found.hours++
    for (const cell of compare.all(toFirstId(hour - SLACK_MS), toFirstId(end + SLACK_MS), hour, end)) {
      found.requests += Number(cell.ledger_requests)
      found.costNanoUsd += Number(cell.ledger_cost_nano_usd)
      const fields = differencesOf(cell)
      if (fields.length === 0 && !cell.orphan) continue
      const { key_id, model, upstream } = cell
      found.findings.push({ kind: 'difference', hour_ms: hour, key_id, model, upstream, fields })
    }
    found.findings.push(...checkCalls(hour, toFirstId(hour), toFirstId(end)))
  }
}

function differencesOf(cell: Cell): Difference[] {
  return FIELDS.map((field) => ({
    field,
    ledger: Number(cell[`ledger_${field}`]),
    rollup: Number(cell[`rollup_${field}`]),
  })).filter(({ ledger, rollup }) => ledger !== rollup)
}

interface OpenRows {
  table: 'requests' | 'calls'
  instance: string
  rows: number
  oldest_ms: number
}

const OPEN_ROWS = (['requests', 'calls'] as const)
  .map(
    (table) => `SELECT '${table}' AS "table", instance, COUNT(*) AS rows, MIN(created_ms) AS oldest_ms
      FROM ${table} WHERE status = 'open' GROUP BY instance`,
  )
  .join(' UNION ALL ')

function readSetting(sqlite: Database, key: string): string | null {
  return sqlite.query<{ value: string }, [string]>('SELECT value FROM settings WHERE key = ?').get(key)?.value ?? null
}

/** What the living instance holds is on its way. What a dead one left waits for a start, and is usage nobody sees. */
function lookAtSpool(folder: string, living: string | null, found: Audit): void {
  for (const path of listSegments(folder)) {
    const file = path.slice(folder.length + 1)
    const records = countRecords(path)
    if (records === null) continue
    const isOurs = living !== null && file.startsWith(`${living}-`)
    if (records > 0 && !isOurs) found.findings.push({ kind: 'spool', file, records })
    else if (records > 0 || !isOurs) found.notes.push({ file, records })
  }
  for (const file of filesIn(folder)) {
    if (file.endsWith(REJECTED)) found.findings.push({ kind: 'rejected', file })
  }
}

/** Null where the server has just deleted the segment. */
function countRecords(path: string): number | null {
  try {
    return readSegment(path).length
  } catch {
    return null
  }
}
