/** The ledger's store on SQLite: `ledger/` writes through it. Its statements are in the `ledger-*.ts` beside it. */
import type { Database } from 'bun:sqlite'
import type { LedgerStore } from '../ledger-store.ts'
import { createApplier } from './ledger-apply.ts'

/** @param checkpoint moves the log to the file, off the event loop where a server runs. */
export function createLedgerStore(sqlite: Database, checkpoint: LedgerStore['checkpoint']): LedgerStore {
  const { apply, abandonOthers } = createApplier(sqlite)
  return {
    apply: async (records) => apply(records),
    abandonOthers: async (instance) => abandonOthers(instance),
    checkpoint,
  }
}
