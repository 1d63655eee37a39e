/**
 * Writes the rows of `calls` for `ledger-apply.ts`, which decides when, by how their request stands: a request and its
 * additional calls end in one transaction, and a call outlives neither.
 */
import type { Database } from 'bun:sqlite'
import type { ClosedCall, OpenCall } from '../../ledger/rows.ts'
import { CLOSED_CALL, columns, OPEN_CALL, placeholders, selection, values } from './ledger-columns.ts'

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

export function createCallTable(sqlite: Database): CallTable {
  const insertOpen = sqlite.query(
    `INSERT INTO calls (${columns(OPEN_CALL)}, status) VALUES (${placeholders(OPEN_CALL)}, 'open')
     ON CONFLICT (request_id, number) DO NOTHING`,
  )
  const insertClosed = sqlite.query(`INSERT INTO calls (${columns(CLOSED_CALL)}) VALUES (${placeholders(CLOSED_CALL)})`)
  const remove = sqlite.query('DELETE FROM calls WHERE request_id = ?')
  const removeOpen = sqlite.query(`DELETE FROM calls WHERE request_id = ? AND status = 'open'`)
  const find = sqlite.query<OpenCall, [string]>(
    `SELECT ${selection(OPEN_CALL)} FROM calls WHERE request_id = ? ORDER BY number`,
  )
  const findOthers = sqlite.query<{ id: string }, [string]>(
    `SELECT DISTINCT request_id AS id FROM calls WHERE status = 'open' AND instance <> ?`,
  )

  return {
    open: (call) => insertOpen.run(...values(call, OPEN_CALL)).changes > 0,
    replace(requestId, rows) {
      remove.run(requestId)
      for (const row of rows) insertClosed.run(...values(row, CLOSED_CALL))
    },
    of: (requestId) => find.all(requestId),
    dropOpen: (requestId) => void removeOpen.run(requestId),
    leftOpen: (instance) => findOthers.all(instance).map(({ id }) => id),
  }
}
