/**
 * Applies ledger records to the database: with `apply-calls.ts` the one place where the ledger is written. Applying is
 * idempotent and does not depend on the order (design 5), so a spool can be replayed as often as it takes. How a request
 * stands decides for its calls: they end with it, and what comes after that is late and changes nothing.
 */

import type { Database } from 'bun:sqlite'
import { codeOf } from '../domain/error.ts'
import { requests } from '../store/sqlite/schema.ts'
import { createCallTable } from './apply-calls.ts'
import { createRollup } from './rollup.ts'
import {
  type ClosedCall,
  type ClosedRow,
  type LedgerRecord,
  OPEN_FIELDS,
  type OpenCall,
  type OpenRow,
  OUTCOME_FIELDS,
  toAbandoned,
  toAbandonedCall,
} from './rows.ts'
import { marks, values } from './values.ts'

export interface Applier {
  /**
   * Applies the records in one immediate transaction. Throws where the database as a whole refuses; then all of them
   * may be given again. One row that does not fit is set aside and never costs the others their place.
   */
  commit(records: readonly LedgerRecord[]): void
  /** Gives up what instances but this one have left open. Returns how many requests that were. */
  abandonOthers(instance: string): number
}

/** Tells whether the database as a whole refuses (locked, full, read-only, broken), rather than one bad row. */
export function isRefusal(error: unknown): boolean {
  const code = codeOf(error)
  return /^SQLITE_(BUSY|LOCKED|FULL|IOERR|READONLY|CANTOPEN|NOMEM|CORRUPT|NOTADB|PROTOCOL|PERM|AUTH)/.test(code)
}

/** Tells whether another writer is at work, which a little patience cures. */
export function isBusy(error: unknown): boolean {
  return /^SQLITE_(BUSY|LOCKED)/.test(codeOf(error))
}

/** Tells whether the disk has no room. */
export function isFull(error: unknown): boolean {
  return /^SQLITE_(FULL|IOERR_SHMSIZE)/.test(codeOf(error))
}

const column = (field: keyof typeof requests.$inferSelect) => requests[field].name
const CLOSED_FIELDS = [...OPEN_FIELDS, ...OUTCOME_FIELDS]
/** A fallback may have moved the request to another upstream than the one it was opened for. */
const UPDATED_FIELDS = ['upstream', 'upstreamModel', 'priceId', ...OUTCOME_FIELDS] as const

/** How a request stands: one that was given up still takes its outcome, and calls that turn up late. */
type Found = ClosedRow | (OpenRow & { status: 'open' })

/** @param setAside keeps a record that no database takes, where an administrator finds it. */
export function createApplier(sqlite: Database, setAside: (record: LedgerRecord, error: unknown) => void): Applier {
  const rollup = createRollup(sqlite)
  const calls = createCallTable(sqlite)
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
  const find = sqlite.query<Found, [string]>(`SELECT ${selection} FROM requests WHERE id = ?`)
  const findOthers = sqlite.query<OpenRow, [string]>(
    `SELECT ${selection} FROM requests WHERE status = 'open' AND instance <> ?`,
  )

  const close = (row: ClosedRow, further: readonly ClosedCall[] = []) => {
    const changed = closeOpen.run(...values(row, UPDATED_FIELDS), row.id).changes
    if (changed > 0) {
      if (further.length > 0) calls.replace(row.id, further)
      return rollup.add(row, 1)
    }
    const before = find.get(row.id)
    if (!before) insertClosed.run(...values(row, CLOSED_FIELDS))
    else if (before.status === 'abandoned') {
      closeAbandoned.run(...values(row, UPDATED_FIELDS), row.id)
      rollup.add(before, -1)
    } else return
    calls.replace(row.id, further)
    rollup.add(row, 1)
  }

  const abandon = (row: OpenRow) => {
    const given = toAbandoned(row, calls.of(row.id))
    close(given.row, given.calls)
  }

  const openCall = (call: OpenCall) => {
    const request = find.get(call.requestId)
    if (request && request.status !== 'open' && request.status !== 'abandoned') return
    const isNew = calls.open(call)
    if (isNew && request?.status === 'abandoned') abandon(request)
  }

  /** Calls that are open although their request is not, or is not there. */
  const closeStray = (requestId: string) => {
    const request = find.get(requestId)
    if (!request) return calls.replace(requestId, calls.of(requestId).map(toAbandonedCall))
    // What a settled request does not name was never made.
    if (request.status !== 'open') calls.dropOpen(requestId)
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
    else if (record.kind === 'settle') close(record.row, record.calls)
    else openCall(record.call)
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
        for (const row of rows) abandon(row)
        for (const requestId of calls.leftOpen(instance)) closeStray(requestId)
        return rows.length
      }),
  }
}
