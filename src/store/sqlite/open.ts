/**
 * Opens the database file with the pragmas that everything else relies on, in the order that matters: how long to wait
 * comes first, since switching to WAL may have to. The server's writer never waits inside SQLite; commands wait up to 5 s.
 */
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
  /** How long a statement waits for another writer, in ms. 0 for the server's writer. */
  busyMs: number
  readonly?: boolean
}

/** Opens an existing or new database file. The caller closes it. */
export function openDatabase(path: string, options: OpenOptions): Database {
  const database = new Database(path, options.readonly ? { readonly: true } : { create: true, readwrite: true })
  database.run(`PRAGMA busy_timeout = ${options.busyMs}`)
  if (!options.readonly) {
    // Of a file that is there already this changes nothing: `compact.ts` does.
    database.run('PRAGMA auto_vacuum = INCREMENTAL')
    database.run('PRAGMA journal_mode = WAL')
    database.run('PRAGMA synchronous = NORMAL')
  }
  database.run('PRAGMA foreign_keys = ON')
  return database
}

/** Opens the store of a data folder for a command. Throws a ServiceError where no server has made one yet. */
export function openForCommand(
  dataFolder: string,
  options: { readonly?: boolean } = {},
): { sqlite: Database; store: ConfigStore } {
  const path = databasePath(dataFolder)
  if (!existsSync(path))
    throw new ServiceError({ kind: 'no_database', dataFolder }, `There is no Tollgate database in ${dataFolder}.`)
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

/**
 * Opens the store of a data folder for one look at it, in a process that goes on. Drizzle finalizes none of its statements, and as long
 * as one is left a connection that is closed keeps its files, and in the end a lock: taken from the connection's own cache, they go with it.
 */
export function openForLook(dataFolder: string): Database {
  const { sqlite } = openForCommand(dataFolder, { readonly: true })
  sqlite.prepare = sqlite.query
  return sqlite
}

/** A writer holds up a reader for moments only, or for good. */
const UNTOUCHED_BUSY_MS = 1_000

/**
 * Opens whatever is there. Where no server runs and nothing is in the log, the file alone is all there is, and is read as it stands.
 * Otherwise it is opened like any database in use, whose side files are there already.
 */
export function openUntouched(path: string, isAtRest: boolean): Database {
  const isWhole = isAtRest && (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) === 0
  const flags = constants.SQLITE_OPEN_READONLY | constants.SQLITE_OPEN_URI
  const sqlite = new Database(`${pathToFileURL(path).href}${isWhole ? '?immutable=1' : ''}`, flags)
  sqlite.run(`PRAGMA busy_timeout = ${UNTOUCHED_BUSY_MS}`)
  return sqlite
}
