/**
 * Sums the cells of hours by the day, each for one thing at a time: for its key, its team, its model … `ledger-rollup.ts` hands in what
 * it writes, within the same transaction; of a batch of requests that is a few rows, however many cells it falls into.
 */
import type { Database } from 'bun:sqlite'
import { dayOf } from '../../domain/time.ts'
import { DAILY, type Daily } from '../usage-store.ts'
import { addSums, COST, createSums, createSumWriter, type Sums } from './ledger-measures.ts'

interface Day extends Sums {
  of: readonly [dimension: Daily, dayMs: number, value: string]
}

export function createDays(sqlite: Database) {
  const days = new Map<string, Day>()
  const write = createSumWriter(sqlite, 'usage_daily', ['dimension', 'day_ms', 'value'])

  const add = (of: Day['of'], cell: Sums): void => {
    const name = JSON.stringify(of)
    let day = days.get(name)
    // SQLite adds up exactly far beyond what a number holds.
    if (day && Math.abs(day.sums[COST] ?? 0) + Math.abs(cell.sums[COST] ?? 0) > Number.MAX_SAFE_INTEGER) {
      write(day.of, day)
      day = undefined
    }
    day ??= { of, ...createSums() }
    days.set(name, day)
    addSums(day, cell)
  }

  return {
    /** @param place what the cell is of, in the order of DAILY. */
    add(hourMs: number, place: readonly string[], cell: Sums): void {
      for (const [at, dimension] of DAILY.entries()) add([dimension, dayOf(hourMs), place[at] ?? ''], cell)
    },
    /** Writes what was gathered. Call it inside the transaction of the cells. */
    flush(): void {
      for (const day of days.values()) write(day.of, day)
      days.clear()
    },
    /** Forgets it, after a rollback. */
    clear: () => days.clear(),
  }
}
