/**
 * Sums the cells of hours by the day, each for one thing at a time: for its key, its team, its model …, and for its key, its team …
 * within its model. `ledger-rollup.ts` hands in what it writes, within the same transaction; of a batch of requests that is a few rows,
 * however many cells it falls into.
 */
import type { Database } from 'bun:sqlite'
import { dayOf } from '../../domain/time.ts'
import { addSums, BETWEEN, COST, createSums, createSumWriter, DAY_SUMS, type Sums } from './ledger-measures.ts'

export function createDays(sqlite: Database) {
  const write = createSumWriter(sqlite, 'usage_daily', ['dimension', 'day_ms', 'value'])
  /** Of one day, by their value. */
  const days = DAY_SUMS.map((of) => ({ ...of, values: new Map<string, Sums>() }))
  let dayMs = 0

  const add = ({ dimension, values }: (typeof days)[number], value: string, cell: Sums): void => {
    let sum = values.get(value)
    // SQLite adds up exactly far beyond what a number holds.
    if (sum && Math.abs(sum.sums[COST] ?? 0) + Math.abs(cell.sums[COST] ?? 0) > Number.MAX_SAFE_INTEGER) {
      write([dimension, dayMs, value], sum)
      sum = undefined
    }
    if (!sum) {
      sum = createSums()
      values.set(value, sum)
    }
    addSums(sum, cell)
  }

  const clear = () => {
    for (const { values } of days) values.clear()
  }

  const flush = () => {
    for (const { dimension, values } of days) for (const [value, sum] of values) write([dimension, dayMs, value], sum)
    clear()
  }

  return {
    /** @param place what the cell is of, in the order of DAILY. */
    add(hourMs: number, place: readonly string[], cell: Sums): void {
      // Hardly a batch is of two days.
      if (dayOf(hourMs) !== dayMs) flush()
      dayMs = dayOf(hourMs)
      for (const day of days) {
        const value = place[day.of] ?? ''
        const scope = day.scope === null ? null : place[day.scope]
        // What has no team is within none.
        if (scope !== '') add(day, scope === null ? value : scope + BETWEEN + value, cell)
      }
    },
    /** Writes what was gathered. Call it inside the transaction of the cells. */
    flush,
    /** Forgets it, after a rollback. */
    clear,
  }
}
