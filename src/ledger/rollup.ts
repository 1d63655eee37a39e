/**
 * Sums settled rows into `usage_hourly`, inside the transaction that settles them. One group of rows mostly falls into
 * one cell (hour, key, model, upstream), so deltas are gathered in memory and each cell is written once a group.
 */
import type { Database } from 'bun:sqlite'
import { addDuration, type Histogram, mergeHistogram } from './histogram.ts'
import type { ClosedRow } from './rows.ts'

export const HOUR_MS = 3_600_000

export interface Rollup {
  /** Counts a row (`sign` 1), or takes back what it counted before (-1). */
  add(row: ClosedRow, sign: 1 | -1): void
  /** Writes the gathered deltas. Call it inside the transaction of the rows. */
  flush(): void
  /** Forgets the gathered deltas, after a rollback. */
  clear(): void
}

interface Cell {
  where: [number, string, string, string]
  /** In the order of SUMS. */
  sums: number[]
  firstToken: Histogram
  duration: Histogram
}

const SUMS = [
  'requests',
  'errors',
  'cuts',
  'prompt_tokens',
  'cached_tokens',
  'cache_write_tokens',
  'completion_tokens',
  'reasoning_tokens',
  'cost_nano_usd',
  'estimated_cost_nano_usd',
]

/** What one row counts in its cell, in the order of SUMS. */
export function toSums(row: ClosedRow): number[] {
  return [
    1,
    row.status === 'failed' || row.status === 'abandoned' ? 1 : 0,
    row.status === 'cut' ? 1 : 0,
    row.promptTokens,
    row.cachedTokens,
    row.cacheWriteTokens,
    row.completionTokens,
    row.reasoningTokens,
    row.costNanoUsd,
    row.estimated ? row.costNanoUsd : 0,
  ]
}

export function createRollup(sqlite: Database): Rollup {
  const cells = new Map<string, Cell>()
  let last: Cell | null = null
  const place = 'hour_ms = ? AND key_id = ? AND model = ? AND upstream = ?'
  const read = sqlite.query<{ first: string; whole: string }, [number, string, string, string]>(
    `SELECT first_token_histogram AS first, duration_histogram AS whole FROM usage_hourly WHERE ${place}`,
  )
  const columns = ['hour_ms', 'key_id', 'model', 'upstream', ...SUMS, 'first_token_histogram', 'duration_histogram']
  const upsert = sqlite.query(
    `INSERT INTO usage_hourly (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})
     ON CONFLICT (hour_ms, key_id, model, upstream) DO UPDATE SET
     ${SUMS.map((name) => `${name} = ${name} + excluded.${name}`).join(', ')},
     first_token_histogram = excluded.first_token_histogram, duration_histogram = excluded.duration_histogram`,
  )

  const removeEmpty = sqlite.query(`DELETE FROM usage_hourly WHERE ${place} AND requests = 0`)

  const isOf = ({ where: [hourMs, keyId, model, upstream] }: Cell, row: ClosedRow) =>
    row.keyId === keyId &&
    row.model === model &&
    row.upstream === upstream &&
    row.createdMs - hourMs < HOUR_MS &&
    row.createdMs >= hourMs

  const cellOf = (row: ClosedRow): Cell => {
    // Most rows fall into the cell of the one before: no name has to be built to find that.
    if (last && isOf(last, row)) return last
    const hour = row.createdMs - (row.createdMs % HOUR_MS)
    const name = `${hour} ${row.keyId} ${row.model} ${row.upstream}`
    last = cells.get(name) ?? {
      where: [hour, row.keyId, row.model, row.upstream],
      sums: SUMS.map(() => 0),
      firstToken: {},
      duration: {},
    }
    cells.set(name, last)
    return last
  }

  return {
    add(row, sign) {
      const cell = cellOf(row)
      const sums = toSums(row)
      for (let i = 0; i < sums.length; i++) cell.sums[i] = (cell.sums[i] ?? 0) + sign * (sums[i] ?? 0)
      addDuration(cell.firstToken, row.firstTokenMs, sign)
      addDuration(cell.duration, row.durationMs, sign)
    },
    flush() {
      for (const cell of cells.values()) {
        const stored = read.get(...cell.where)
        upsert.run(
          ...cell.where,
          ...cell.sums,
          mergeHistogram(stored?.first ?? '{}', cell.firstToken),
          mergeHistogram(stored?.whole ?? '{}', cell.duration),
        )
        // A fallback settled elsewhere what had been abandoned here.
        if ((cell.sums[0] ?? 0) < 0) removeEmpty.run(...cell.where)
      }
      cells.clear()
      last = null
    },
    clear() {
      cells.clear()
      last = null
    },
  }
}
