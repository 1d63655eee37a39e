/**
 * Opens the database file with the pragmas that everything else relies on, in the order that matters: how long to wait
 * comes first, since switching to WAL may have to. The server's writer never waits inside SQLite; commands wait up to 5 s.
 */
import { Database } from 'bun:sqlite'
import { accessSync, chmodSync, constants, existsSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf, messageOf } from '../../domain/error.ts'
import { ServiceError } from '../../domain/service-error.ts'
import type { ConfigStore } from '../config-store.ts'
import { createConfigStore } from './config-store.ts'
import { toDatabaseTrouble } from './database-file.ts'
import { requireCurrentSchema } from './migrate.ts'

export const COMMAND_BUSY_MS = 5_000

export interface OpenOptions {
  /** How long a statement waits for another writer, in ms. 0 for the server's writer. */
  busyMs: number
  readonly?: boolean
}

/** Path of the database in a data folder. */
export const databasePath = (dataFolder: string) => join(dataFolder, 'tollgate.db')

/**
 * Makes the data folder, for its owner alone, or checks that the one that is there can be written; whoever made that
 * chose its mode. Throws a ServiceError that says why not.
 */
export function prepareDataFolder(dataFolder: string): void {
  try {
    const made = mkdirSync(dataFolder, { recursive: true, mode: 0o700 })
    if (made !== undefined) {
      chmodSync(dataFolder, 0o700)
      return
    }
    const found = statSync(dataFolder)
    if (!found.isDirectory()) throw new Error('it is a file')
    accessSync(dataFolder, constants.W_OK | constants.X_OK)
    // Root may write anywhere, also where the owner asked for the opposite.
    if ((found.mode & constants.S_IWUSR) === 0) throw new Error('it cannot be written')
  } catch (cause) {
    throw new ServiceError(
      { kind: 'data_unwritable', dataFolder },
      `Cannot use ${dataFolder} as the data folder: ${reasonOf(cause)}.`,
    )
  }
}

/**
 * Throws a ServiceError that says why, where a command cannot look into a data folder. One that is not there has no database,
 * which is for others to say.
 */
export function requireReadable(dataFolder: string): void {
  try {
    if (!statSync(dataFolder).isDirectory()) throw new ServiceError({ kind: 'no_folder' }, `${dataFolder} is a file.`)
    accessSync(dataFolder, constants.R_OK | constants.X_OK)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'EACCES' || code === 'EPERM')
      throw new ServiceError({ kind: 'data_unreadable', dataFolder }, `This user may not look into ${dataFolder}.`)
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error
  }
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
export function openForLook(dataFolder: string): { sqlite: Database; store: ConfigStore } {
  const opened = openForCommand(dataFolder, { readonly: true })
  opened.sqlite.prepare = opened.sqlite.query
  return opened
}

/** What a server notes in the settings table for others: who keeps the ledger now. */
export type Fact = 'instance'

/** Throws what SQLite says. */
export function writeFact(writer: Database, fact: Fact, value: string, nowMs: number): void {
  writer
    .query(
      `INSERT INTO settings (key, value, updated_ms) VALUES (?, ?, ?)
       ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_ms = excluded.updated_ms`,
    )
    .run(fact, value, nowMs)
}

function reasonOf(cause: unknown): string {
  const code = codeOf(cause)
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') return 'it cannot be written'
  if (code === 'EEXIST' || code === 'ENOTDIR') return 'there is a file of that name'
  return messageOf(cause)
}
