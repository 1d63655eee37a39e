/**
 * Sums settled rows into `usage_hourly`, inside the transaction that settles them. A batch of rows mostly falls into few
 * cells (hour, key, team, model, upstream, endpoint), so deltas are gathered in memory and each cell is written once; with them go
 * the sums of days (`ledger-days.ts`). `ledger-apply.ts` calls it.
 */
import type { Database } from 'bun:sqlite'
import { hourOf } from '../../domain/time.ts'
import { countDuration } from '../histogram.ts'
import type { ClosedRow } from '../ledger-rows.ts'
import { createDays } from './ledger-days.ts'
import { COST, createSums, createSumWriter, MEASURES, PLACE, type Sums } from './ledger-measures.ts'

export interface Rollup {
  /** Counts a row (`sign` 1), or takes back what it counted before (-1). Call it inside the transaction of the row. */
  add(row: ClosedRow, sign: 1 | -1): void
  /** Writes the gathered deltas. Call it inside the transaction of the rows. */
  flush(): void
  /** Forgets the gathered deltas, after a rollback. */
  clear(): void
}

interface Cell extends Sums {
  hourMs: number
  place: string[]
}

export function createRollup(sqlite: Database): Rollup {
  const cells = new Map<string, Cell>()
  /** Of the row before: most rows of a batch are of one cell. */
  let latest: Cell | null = null
  const write = createSumWriter(sqlite, 'usage_hourly', ['hour_ms', ...PLACE])
  const days = createDays(sqlite)

  const cellOf = (row: ClosedRow): Cell => {
    const hourMs = hourOf(row.createdMs)
    if (latest !== null && isOf(row, hourMs, latest)) return latest
    const place = [row.keyId, row.teamId ?? '', row.model, row.upstream, row.endpoint]
    const name = JSON.stringify([hourMs, ...place])
    latest = cells.get(name) ?? { hourMs, place, ...createSums() }
    cells.set(name, latest)
    return latest
  }

  const clear = () => {
    cells.clear()
    days.clear()
    latest = null
  }

  const flush = () => {
    // In the order of the tables: a page that is written to is left for good before the next one.
    for (const cell of [...cells.values()].sort(byPlace)) {
      write([cell.hourMs, ...cell.place], cell)
      days.add(cell.hourMs, cell.place, cell)
    }
    days.flush()
    clear()
  }

  return {
    add(row, sign) {
      // SQLite adds up exactly far beyond what a number holds.
      if (Math.abs(cellOf(row).sums[COST] ?? 0) + row.costNanoUsd > Number.MAX_SAFE_INTEGER) flush()
      const cell = cellOf(row)
      for (let i = 0; i < MEASURES.length; i++) cell.sums[i] = (cell.sums[i] ?? 0) + sign * (MEASURES[i]?.of(row) ?? 0)
      countDuration(cell.firstToken, row.firstTokenMs, sign)
      countDuration(cell.duration, row.durationMs, sign)
    },
    flush,
    clear,
  }
}

const byPlace = ({ place: [a = ''] }: Cell, { place: [b = ''] }: Cell) => (a < b ? -1 : Number(a > b))

const isOf = (row: ClosedRow, hourMs: number, { hourMs: hour, place: [key, team, model, upstream, endpoint] }: Cell) =>
  hour === hourMs &&
  row.keyId === key &&
  (row.teamId ?? '') === team &&
  row.model === model &&
  row.upstream === upstream &&
  row.endpoint === endpoint
