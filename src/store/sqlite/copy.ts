/** A copy of a database in one file, such as a backup. */
import { Database } from 'bun:sqlite'
import type { StoreCopy } from '../store.ts'
import { readContent } from './content.ts'
import { createLedgerWriter } from './ledger-apply.ts'
import { migrate, newerSchema, readSchemaState } from './migrate.ts'
import { keepRevocations } from './revocations.ts'
import { toStore } from './store.ts'

/** A folder that no server uses. */
const NOWHERE = '/nonexistent'

export function openCopy(file: string, { readonly = false } = {}): StoreCopy {
  const sqlite = new Database(file, readonly ? { readonly } : { readwrite: true })
  if (!readonly) {
    // Merges the WAL of a plain file copy.
    sqlite.run('PRAGMA journal_mode = DELETE')
    // A kill discards the copy anyway, and it is synced at the end.
    sqlite.run('PRAGMA journal_mode = MEMORY')
    sqlite.run('PRAGMA synchronous = OFF')
  }
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
    missing() {
      const { missing, unknown } = readSchemaState(sqlite)
      if (unknown.length > 0) throw newerSchema(unknown)
      return missing.map(({ name }) => name)
    },
    content: () => readContent(sqlite),
    keepRevocations: (other, nowMs) => keepRevocations(sqlite, other, nowMs),
    [Symbol.dispose]: () => sqlite.close(),
  }
}
