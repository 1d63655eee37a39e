/** The store in the SQLite file of a data folder. */
import type { Database } from 'bun:sqlite'
import { existsSync, statSync } from 'node:fs'
import type { ConfigStore } from '../config-store.ts'
import type { Store, StoreOptions, StorePlace } from '../store.ts'
import { createAlertStore } from './alert-store.ts'
import { compactDatabase } from './compact.ts'
import { createConfigStore } from './config-store.ts'
import { toDatabaseTrouble } from './errors.ts'
import { databasePath, FILES, readHeader } from './files.ts'
import { createIdentityStore } from './identity-store.ts'
import { createLedgerAudit } from './ledger-audit.ts'
import { createLedgerReader } from './ledger-reader.ts'
import { MIGRATIONS, requireCurrentSchema } from './migrate.ts'
import { listCopies } from './migration-copies.ts'
import { openForCommand, openForLook, openUntouched } from './open.ts'
import { readSpace } from './prune.ts'
import { createReaders } from './readers.ts'

export function sqliteAt(dataFolder: string): StorePlace {
  const path = databasePath(dataFolder)
  return {
    files: FILES,
    exists: () => existsSync(path),
    open: (options = {}) => toStore(open(dataFolder, options), dataFolder),
    serve: async (options) => (await import('./served.ts')).openServed(path, dataFolder, options),
    openCopy: async (file, options) => (await import('./copy.ts')).openCopy(file, options),
    readRevocations: async (busyMs) => (await import('./revocations.ts')).readRevocations(path, busyMs),
    migrationCopies: () => listCopies(dataFolder),
    explainFile: (file) => (readHeader(file) === null ? 'is not a database' : null),
    explain: (error) => toDatabaseTrouble(path, error),
  }
}

function open(dataFolder: string, { readonly = false, isLook = false, untouched }: StoreOptions): Database {
  if (untouched) return openUntouched(databasePath(dataFolder), untouched === 'at_rest')
  return isLook ? openForLook(dataFolder) : openForCommand(dataFolder, { readonly }).sqlite
}

/** Parts are created on access. */
export function toStore(sqlite: Database, dataFolder: string): Store {
  let config: ConfigStore | null = null
  return {
    get config() {
      config ??= createConfigStore(sqlite)
      return config
    },
    get identity() {
      return createIdentityStore(sqlite)
    },
    get alerts() {
      return createAlertStore(sqlite)
    },
    get ledger() {
      return createLedgerReader(sqlite)
    },
    reports: createReaders(sqlite),
    get audit() {
      return createLedgerAudit(sqlite, dataFolder)
    },
    schema: MIGRATIONS.at(-1)?.name ?? '',
    identify: () => `${statSync(databasePath(dataFolder)).ino} ${dataFolder}`,
    space: () => readSpace(sqlite),
    findDamage: (how) => findDamage(sqlite, how),
    requireCurrent: () => requireCurrentSchema(sqlite),
    copyTo: (file) => void sqlite.query('VACUUM INTO ?').run(file),
    compact: () => compactDatabase(sqlite, dataFolder),
    close: () => sqlite.close(),
  }
}

function findDamage(sqlite: Database, how: 'quick' | 'all'): string | null {
  const check = how === 'quick' ? 'quick_check' : 'integrity_check'
  const said = sqlite.query<Record<string, string>, []>(`PRAGMA ${check}(1)`).get()?.[check]
  return said === 'ok' ? null : (said ?? 'the check returned nothing')
}
