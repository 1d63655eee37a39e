/**
 * Sums settled rows into `usage_hourly`, inside the transaction that settles them. A batch of rows mostly falls into few
 * cells (hour, key, team, model, upstream, endpoint), so deltas are gathered in memory and each cell is written once.
 * `ledger-apply.ts` calls it; `ledger-audit.ts` holds the same measures against the rows.
 */
import type { Database } from 'bun:sqlite'
import { addDuration, addHistogram, type Histogram } from '../../domain/histogram.ts'
import { hourOf } from '../../domain/time.ts'
import type { ClosedRow } from '../ledger-rows.ts'
import { column, placeholders, SUMMED } from './ledger-columns.ts'

export interface Rollup {
  /** Counts a row (`sign` 1), or takes back what it counted before (-1). Call it inside the transaction of the row. */
  add(row: ClosedRow, sign: 1 | -1): void
  /** Writes the gathered deltas. Call it inside the transaction of the rows. */
  flush(): void
  /** Forgets the gathered deltas, after a rollback. */
  clear(): void
}

/** A column of `usage_hourly` that sums something: what a row adds to it, and the same in SQL. */
interface Measure {
  name: string
  of(row: ClosedRow): number
  sql: string
}

export const MEASURES: readonly Measure[] = [
  { name: 'requests', of: () => 1, sql: '1' },
  {
    name: 'errors',
    of: ({ status }) => (status === 'failed' || status === 'abandoned' ? 1 : 0),
    sql: `status IN ('failed', 'abandoned')`,
  },
  { name: 'cuts', of: ({ status }) => (status === 'cut' ? 1 : 0), sql: `status = 'cut'` },
  ...SUMMED.map((field) => ({ name: column(field), of: (row: ClosedRow) => row[field], sql: column(field) })),
  {
    name: 'estimated_cost_nano_usd',
    of: ({ estimated, costNanoUsd }) => (estimated ? costNanoUsd : 0),
    sql: 'CASE WHEN estimated THEN cost_nano_usd ELSE 0 END',
  },
]

const COST = MEASURES.findIndex(({ name }) => name === 'cost_nano_usd')

/** What a cell is of, as columns of `usage_hourly`; in `requests` a key without a team has none. */
export const PLACE = ['key_id', 'team_id', 'model', 'upstream', 'endpoint'] as const

/** Histograms of a cell, and the column of the ledger whose known values each counts. */
export const HISTOGRAMS = [
  ['first_token_histogram', 'first_token_ms'],
  ['duration_histogram', 'duration_ms'],
] as const

interface Cell {
  hourMs: number
  place: string[]
  /** In the order of MEASURES. */
  sums: number[]
  firstToken: Histogram
  duration: Histogram
}

export function createRollup(sqlite: Database): Rollup {
  const cells = new Map<string, Cell>()
  /** Of the row before: most rows of a batch are of one cell. */
  let latest: Cell | null = null
  const where = `hour_ms = ? AND ${PLACE.map((name) => `${name} = ?`).join(' AND ')}`
  const read = sqlite.query<{ first: string; whole: string }, (string | number)[]>(
    `SELECT first_token_histogram AS first, duration_histogram AS whole FROM usage_hourly WHERE ${where}`,
  )
  const names = ['hour_ms', ...PLACE, ...MEASURES.map(({ name }) => name), ...HISTOGRAMS.map(([name]) => name)]
  const upsert = sqlite.query(
    `INSERT INTO usage_hourly (${names.join(', ')}) VALUES (${placeholders(names)})
     ON CONFLICT (hour_ms, ${PLACE.join(', ')}) DO UPDATE SET
     ${MEASURES.map(({ name }) => `${name} = ${name} + excluded.${name}`).join(', ')},
     ${HISTOGRAMS.map(([name]) => `${name} = excluded.${name}`).join(', ')}`,
  )
  const removeEmpty = sqlite.query(`DELETE FROM usage_hourly WHERE ${where} AND requests = 0`)

  const cellOf = (row: ClosedRow): Cell => {
    const hourMs = hourOf(row.createdMs)
    if (latest !== null && isOf(row, hourMs, latest)) return latest
    const place = [row.keyId, row.teamId ?? '', row.model, row.upstream, row.endpoint]
    const name = JSON.stringify([hourMs, ...place])
    latest = cells.get(name) ?? { hourMs, place, sums: MEASURES.map(() => 0), firstToken: {}, duration: {} }
    cells.set(name, latest)
    return latest
  }

  const clear = () => {
    cells.clear()
    latest = null
  }

  const flush = () => {
    for (const { hourMs, place, sums, firstToken, duration } of cells.values()) {
      const stored = read.get(hourMs, ...place)
      upsert.run(
        ...[hourMs, ...place, ...sums],
        mergeHistogram(stored?.first ?? '{}', firstToken),
        mergeHistogram(stored?.whole ?? '{}', duration),
      )
      // A fallback settled elsewhere what had been abandoned here.
      if ((sums[0] ?? 0) < 0) removeEmpty.run(hourMs, ...place)
    }
    clear()
  }

  return {
    add(row, sign) {
      // SQLite adds up exactly far beyond what a number holds.
      if (Math.abs(cellOf(row).sums[COST] ?? 0) + row.costNanoUsd > Number.MAX_SAFE_INTEGER) flush()
      const cell = cellOf(row)
      for (let i = 0; i < MEASURES.length; i++) cell.sums[i] = (cell.sums[i] ?? 0) + sign * (MEASURES[i]?.of(row) ?? 0)
      addDuration(cell.firstToken, row.firstTokenMs, sign)
      addDuration(cell.duration, row.durationMs, sign)
    },
    flush,
    clear,
  }
}

const isOf = (row: ClosedRow, hourMs: number, { hourMs: hour, place: [key, team, model, upstream, endpoint] }: Cell) =>
  hour === hourMs &&
  row.keyId === key &&
  (row.teamId ?? '') === team &&
  row.model === model &&
  row.upstream === upstream &&
  row.endpoint === endpoint

/** Adds every bucket of `delta` to the stored text and returns the new text. */
function mergeHistogram(stored: string, delta: Histogram): string {
  const sum: Histogram = JSON.parse(stored)
  addHistogram(sum, delta)
  return JSON.stringify(sum)
}
