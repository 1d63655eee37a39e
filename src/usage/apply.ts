/**
 * Applies ledger records to the database: the one place where `requests` is written. Applying is idempotent and does
 * not depend on the order (design 5), so a spool can be replayed as often as it takes.
 */
import type { Database } from 'bun:sqlite'
import { requests } from '../store/schema.ts'
import { createRollup } from './rollup.ts'
import { type ClosedRow, type LedgerRecord, OPEN_FIELDS, type OpenRow, OUTCOME_FIELDS, toAbandoned } from './rows.ts'

export interface Applier {
  /**
   * Applies the records in one immediate transaction. Throws where the database as a whole refuses; then all of them
   * may be given again. One row that does not fit is set aside and never costs the others their place.
   */
  commit(records: readonly LedgerRecord[]): void
  /** Gives up the open rows of every instance but this one. Returns how many. */
  abandonOthers(instance: string): number
}

/** Tells whether the database as a whole refuses (locked, full, read-only, broken), rather than one bad row. */
export function isRefusal(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return /^SQLITE_(BUSY|LOCKED|FULL|IOERR|READONLY|CANTOPEN|NOMEM|CORRUPT|NOTADB|PROTOCOL|PERM|AUTH)/.test(code)
}

/** Tells whether another writer is at work, which a little patience cures. */
export function isBusy(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^SQLITE_(BUSY|LOCKED)/.test(String(error.code))
}

/** Tells whether the disk has no room. */
export function isFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^SQLITE_(FULL|IOERR_SHMSIZE)/.test(String(error.code))
}

const column = (field: keyof typeof requests.$inferSelect) => requests[field].name
const CLOSED_FIELDS = [...OPEN_FIELDS, ...OUTCOME_FIELDS]
/** A fallback may have moved the request to another upstream than the one it was opened for. */
const UPDATED_FIELDS = ['upstream', 'upstreamModel', 'priceId', ...OUTCOME_FIELDS] as const

type Value = string | number | null
const values = <T extends string>(row: Record<T, Value>, fields: readonly T[]): Value[] => {
  const out = new Array<Value>(fields.length)
  for (let i = 0; i < fields.length; i++) out[i] = row[fields[i] as T]
  return out
}
const marks = (fields: readonly unknown[]) => fields.map(() => '?').join(', ')

/** @param setAside keeps a record that no database takes, where an administrator finds it. */
export function createApplier(sqlite: Database, setAside: (record: LedgerRecord, error: unknown) => void): Applier {
  const rollup = createRollup(sqlite)
  const begin = sqlite.query('BEGIN IMMEDIATE')
  const end = sqlite.query('COMMIT')
  const insertOpen = sqlite.query(
    `INSERT INTO requests (${OPEN_FIELDS.map(column).join(', ')}, status) VALUES (${marks(OPEN_FIELDS)}, 'open')
     ON CONFLICT (id) DO NOTHING`,
  )
  const insertClosed = sqlite.query(
    `INSERT INTO requests (${CLOSED_FIELDS.map(column).join(', ')}) VALUES (${marks(CLOSED_FIELDS)})`,
  )
  const update = (from: string) =>
    sqlite.query(
      `UPDATE requests SET ${UPDATED_FIELDS.map((field) => `${column(field)} = ?`).join(', ')}
       WHERE id = ? AND status = '${from}'`,
    )
  const closeOpen = update('open')
  const closeAbandoned = update('abandoned')
  const selection = CLOSED_FIELDS.map((field) => `${column(field)} AS ${field}`).join(', ')
  const find = sqlite.query<ClosedRow, [string]>(`SELECT ${selection} FROM requests WHERE id = ?`)
  const findOthers = sqlite.query<OpenRow, [string]>(
    `SELECT ${selection} FROM requests WHERE status = 'open' AND instance <> ?`,
  )

  const settle = (row: ClosedRow) => {
    const changed = closeOpen.run(...values(row, UPDATED_FIELDS), row.id).changes
    if (changed > 0) return rollup.add(row, 1)
    const before = find.get(row.id)
    if (!before) {
      insertClosed.run(...values(row, CLOSED_FIELDS))
      return rollup.add(row, 1)
    }
    if (before.status !== 'abandoned') return
    closeAbandoned.run(...values(row, UPDATED_FIELDS), row.id)
    rollup.add(before, -1)
    rollup.add(row, 1)
  }

  const inTransaction = <T>(work: () => T): T => {
    begin.run()
    try {
      const result = work()
      rollup.flush()
      end.run()
      return result
    } catch (error) {
      rollup.clear()
      // A full disk has already rolled back by itself.
      if (sqlite.inTransaction) sqlite.run('ROLLBACK')
      throw error
    }
  }

  const apply = (record: LedgerRecord) => {
    if (record.kind === 'open') insertOpen.run(...values(record.row, OPEN_FIELDS))
    else settle(record.row)
  }

  return {
    commit(records) {
      try {
        inTransaction(() => {
          for (const record of records) apply(record)
        })
      } catch (error) {
        if (isRefusal(error)) throw error
        for (const record of records) {
          try {
            inTransaction(() => apply(record))
          } catch (reason) {
            if (isRefusal(reason)) throw reason
            setAside(record, reason)
          }
        }
      }
    },
    abandonOthers: (instance) =>
      inTransaction(() => {
        const rows = findOthers.all(instance)
        for (const row of rows) settle(toAbandoned(row))
        return rows.length
      }),
  }
}
