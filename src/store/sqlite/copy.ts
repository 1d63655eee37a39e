/** A copy of a database in one file, such as a backup. */
import { constants, Database } from 'bun:sqlite'
import { pathToFileURL } from 'node:url'
import type { ClosedCall, ClosedRow } from '../ledger-rows.ts'
import type { ClosedRequest, StoreCopy } from '../store.ts'
import { changeAsCopy } from './change.ts'
import { readContent } from './content.ts'
import { createLedgerWriter } from './ledger-apply.ts'
import { CLOSED, CLOSED_CALL, selection } from './ledger-schema.ts'
import { migrate, newerSchema, readSchemaState } from './migrate.ts'
import { failBatches, forgetSessions, keepRevocations } from './revocations.ts'
import { toStore } from './store.ts'

const { SQLITE_OPEN_URI: URI, SQLITE_OPEN_READONLY: READ, SQLITE_OPEN_READWRITE: WRITE } = constants

/** A folder that no server uses. */
const NOWHERE = '/nonexistent'

export function openCopy(file: string, { readonly = false } = {}): StoreCopy {
  const sqlite = new Database(pathToFileURL(file).href, URI | (readonly ? READ : WRITE))
  if (!readonly) {
    // Merges the WAL of a plain file copy.
    sqlite.run('PRAGMA journal_mode = DELETE')
    // A kill discards the copy anyway, and it is synced at the end.
    sqlite.run('PRAGMA journal_mode = MEMORY')
    sqlite.run('PRAGMA synchronous = OFF')
  }
  changeAsCopy(sqlite)
  return {
    store: toStore(sqlite, NOWHERE),
    get writer() {
      return createLedgerWriter(sqlite)
    },
    update(nowMs) {
      if (readSchemaState(sqlite).applied.length === 0) return false
      migrate(sqlite, null, nowMs)
      sqlite.run('PRAGMA foreign_keys = ON')
      return true
    },
    applied: () => readSchemaState(sqlite).applied,
    missing() {
      const { missing, unknown } = readSchemaState(sqlite)
      if (unknown.length > 0) throw newerSchema(sqlite, unknown)
      return missing.map(({ name }) => name)
    },
    content: () => readContent(sqlite),
    keepRevocations: (other, nowMs) => keepRevocations(sqlite, other, nowMs),
    forgetSessions: () => forgetSessions(sqlite),
    failBatches: (nowMs) => failBatches(sqlite, nowMs),
    closedSince: (copy) => closedSince(sqlite, copy),
    [Symbol.dispose]: () => sqlite.close(),
  }
}

const SLICE = 1_000

/** Includes abandoned requests, which may have been settled since. Parameters: ID before the first, rows. */
const CLOSED_SINCE = `
  SELECT ${selection(CLOSED)} FROM main.requests AS requests
  WHERE id > ? AND status <> 'open' AND NOT EXISTS (
    SELECT 1 FROM copy.requests AS before WHERE before.id = requests.id AND before.status <> 'open'
      AND (before.status <> 'abandoned' OR requests.status = 'abandoned')
  ) ORDER BY id LIMIT ?`

function* closedSince(sqlite: Database, path: string): Generator<ClosedRequest[]> {
  sqlite.query('ATTACH ? AS copy').run(`${pathToFileURL(path).href}?immutable=1`)
  try {
    const rows = sqlite.query<ClosedRow, [string, number]>(CLOSED_SINCE)
    const calls = sqlite.query<ClosedCall, [string]>(
      `SELECT ${selection(CLOSED_CALL)} FROM main.calls WHERE request_id = ? AND status <> 'open' ORDER BY number`,
    )
    for (let found = rows.all('', SLICE); found.length > 0; found = rows.all(found.at(-1)?.id ?? '', SLICE))
      yield found.map((row) => ({ row, calls: row.attempts > 1 ? calls.all(row.id) : [] }))
  } finally {
    sqlite.run('DETACH copy')
  }
}
