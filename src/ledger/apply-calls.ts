/**
 * Writes the rows of `calls` for `apply.ts`, which decides when, by how their request stands: a request and its further
 * calls end in one transaction, and a call outlives neither.
 */
import type { Database } from 'bun:sqlite'
import { calls } from '../store/sqlite/schema.ts'
import { CLOSED_CALL_FIELDS, type ClosedCall, OPEN_CALL_FIELDS, type OpenCall } from './rows.ts'
import { marks, values } from './values.ts'

export interface CallTable {
  /** Adds a row that is open. Tells whether there was none of that number. */
  open(call: OpenCall): boolean
  /** Makes these all the rows that the request has. */
  replace(requestId: string, rows: readonly ClosedCall[]): void
  /** All rows of a request, by number. */
  of(requestId: string): OpenCall[]
  /** Forgets the open rows of a request. */
  dropOpen(requestId: string): void
  /** Requests that have open rows of any instance but this one. */
  leftOpen(instance: string): string[]
}

const column = (field: keyof typeof calls.$inferSelect) => calls[field].name

export function createCallTable(sqlite: Database): CallTable {
  const insertOpen = sqlite.query(
    `INSERT INTO calls (${OPEN_CALL_FIELDS.map(column).join(', ')}, status) VALUES (${marks(OPEN_CALL_FIELDS)}, 'open')
     ON CONFLICT (request_id, number) DO NOTHING`,
  )
  const insertClosed = sqlite.query(
    `INSERT INTO calls (${CLOSED_CALL_FIELDS.map(column).join(', ')}) VALUES (${marks(CLOSED_CALL_FIELDS)})`,
  )
  const remove = sqlite.query('DELETE FROM calls WHERE request_id = ?')
  const removeOpen = sqlite.query(`DELETE FROM calls WHERE request_id = ? AND status = 'open'`)
  const selection = OPEN_CALL_FIELDS.map((field) => `${column(field)} AS ${field}`).join(', ')
  const find = sqlite.query<OpenCall, [string]>(`SELECT ${selection} FROM calls WHERE request_id = ? ORDER BY number`)
  const findOthers = sqlite.query<{ id: string }, [string]>(
    `SELECT DISTINCT request_id AS id FROM calls WHERE status = 'open' AND instance <> ?`,
  )

  return {
    open: (call) => insertOpen.run(...values(call, OPEN_CALL_FIELDS)).changes > 0,
    replace(requestId, rows) {
      remove.run(requestId)
      for (const row of rows) insertClosed.run(...values(row, CLOSED_CALL_FIELDS))
    },
    of: (requestId) => find.all(requestId),
    dropOpen: (requestId) => void removeOpen.run(requestId),
    leftOpen: (instance) => findOthers.all(instance).map(({ id }) => id),
  }
}
