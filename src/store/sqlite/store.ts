/** The first store, in the SQLite file of a data folder: contract in `../store.ts`. `../open.ts` opens it. */
import type { Database } from 'bun:sqlite'
import type { StoreOptions } from '../open.ts'
import type { Store } from '../store.ts'
import { compactDatabase } from './compact.ts'
import { createConfigStore } from './config-store.ts'
import { createIdentityStore } from './identity-store.ts'
import { createLedgerAudit } from './ledger-audit.ts'
import { createLedgerReader } from './ledger-reader.ts'
import { openForCommand, openForLook } from './open.ts'
import { readSpace } from './prune.ts'
import { createFailureReader, createRequestReader } from './request-reader.ts'
import { createUsageReader } from './usage-reader.ts'

export function openSqliteStore(dataFolder: string, { readonly = false, isLook = false }: StoreOptions): Store {
  const { sqlite } = isLook ? openForLook(dataFolder) : openForCommand(dataFolder, { readonly })
  return toStore(sqlite, dataFolder)
}

/** Each part is made when it is asked for: a command needs one or two. */
export const toStore = (sqlite: Database, dataFolder: string): Store => ({
  config: createConfigStore(sqlite),
  get identity() {
    return createIdentityStore(sqlite)
  },
  get ledger() {
    return createLedgerReader(sqlite)
  },
  get requests() {
    return createRequestReader(sqlite)
  },
  get usage() {
    return createUsageReader(sqlite)
  },
  get failures() {
    return createFailureReader(sqlite)
  },
  get audit() {
    return createLedgerAudit(sqlite, dataFolder)
  },
  space: () => readSpace(sqlite),
  copyTo: (file) => void sqlite.query('VACUUM INTO ?').run(file),
  compact: () => compactDatabase(sqlite, dataFolder),
  close: () => sqlite.close(),
})
