/** Opens the database. The busy timeout comes first, since switching to WAL may wait. The server's writer never waits inside SQLite. */
import { constants, Database } from 'bun:sqlite'
import { existsSync, statSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { ServiceError } from '../../domain/service-error.ts'
import type { ConfigStore } from '../config-store.ts'
import { createConfigStore } from './config-store.ts'
import { toDatabaseTrouble } from './errors.ts'
import { databasePath } from './files.ts'
import { requireCurrentSchema } from './migrate.ts'

export const COMMAND_BUSY_MS = 5_000

export interface OpenOptions {
  /** ms; 0 for the server's writer. */
  busyMs: number
  readonly?: boolean
}

export function openDatabase(path: string, options: OpenOptions): Database {
  const database = new Database(path, options.readonly ? { readonly: true } : { create: true, readwrite: true })
  database.run(`PRAGMA busy_timeout = ${options.busyMs}`)
  if (!options.readonly) {
    // No effect on existing files: see `compact.ts`.
    database.run('PRAGMA auto_vacuum = INCREMENTAL')
    database.run('PRAGMA journal_mode = WAL')
    database.run('PRAGMA synchronous = NORMAL')
  }
  database.run('PRAGMA foreign_keys = ON')
  return database
}

/** Throws a ServiceError if no server has created it yet. */
export function openForCommand(
  dataFolder: string,
  options: { readonly?: boolean } = {},
): { sqlite: Database; store: ConfigStore } {
  const path = databasePath(dataFolder)
  if (!existsSync(path))
    throw new ServiceError({ kind: 'no_database', dataFolder }, `No Tollgate database in ${dataFolder}.`)
  let sqlite: Database | null = null
  try {
    sqlite = openDatabase(path, { busyMs: COMMAND_BUSY_MS, ...options })
    requireCurrentSchema(sqlite)
    return { sqlite, store: createConfigStore(sqlite) }
  } catch (error) {
    sqlite?.close()
    throw toDatabaseTrouble(path, error)
  }
}

/** Drizzle does not finalize its statements, which keeps files and locks after close; cached statements are finalized with the connection. */
export function openForLook(dataFolder: string): Database {
  const { sqlite } = openForCommand(dataFolder, { readonly: true })
  sqlite.prepare = sqlite.query
  return sqlite
}

const UNTOUCHED_BUSY_MS = 1_000

/** Opens without changing files. If no server runs and the log is empty, opens as immutable, without side files. */
export function openUntouched(path: string, isAtRest: boolean): Database {
  const isWhole = isAtRest && (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) === 0
  const flags = constants.SQLITE_OPEN_READONLY | constants.SQLITE_OPEN_URI
  const sqlite = new Database(`${pathToFileURL(path).href}${isWhole ? '?immutable=1' : ''}`, flags)
  sqlite.run(`PRAGMA busy_timeout = ${UNTOUCHED_BUSY_MS}`)
  return sqlite
}
