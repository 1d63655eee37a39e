/**
 * A data folder's SQLite file as others see it: served by somebody who holds `serve.lock`, busy, or of no use. The lock is a SQLite file
 * under BEGIN EXCLUSIVE. It, not the port, stops a second server on the same data, and it is free the moment its holder dies,
 * however it dies.
 */
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { codeOf, messageOf } from '../../domain/error.ts'
import { ServiceError } from '../../domain/service-error.ts'
import { reasonOfCode } from './refusal.ts'

/** Long enough for `audit`, which looks for an instant whether the lock is held. */
const PATIENCE_MS = 250

const lockPath = (dataFolder: string) => join(dataFolder, 'serve.lock')

/** Takes the lock, or throws a ServiceError where another server has it. Returns how it is given back. */
export const takeLock = (dataFolder: string): (() => void) =>
  takeNamedLock(
    dataFolder,
    'serve.lock',
    () => new ServiceError({ kind: 'already_served', dataFolder }, `Another Tollgate is serving ${dataFolder}.`),
  )

/** The same by another name. Throws what it is given where another process, or another part of this one, has it. */
export function takeNamedLock(dataFolder: string, name: string, toHeld: () => ServiceError): () => void {
  const lock = new Database(join(dataFolder, name), { create: true, readwrite: true })
  try {
    lock.run(`PRAGMA busy_timeout = ${PATIENCE_MS}`)
    // Nothing is ever written: a journal would only need room on a full disk and outlive a killed holder.
    lock.run('PRAGMA journal_mode = MEMORY')
    lock.run('BEGIN EXCLUSIVE')
  } catch (error) {
    lock.close()
    if (!isHeld(error)) throw error
    throw toHeld()
  }
  return () => lock.close()
}

/** Tells whether a server is running on this data folder, without getting in its way. */
export function isServed(dataFolder: string): boolean {
  try {
    const lock = new Database(lockPath(dataFolder), { readonly: true })
    try {
      lock.query('SELECT 1 FROM sqlite_schema').get()
      return false
    } finally {
      lock.close()
    }
  } catch (error) {
    return isHeld(error)
  }
}

const isHeld = (error: unknown) => isBusy(codeOf(error))

/** Whether somebody else is at work on the database: by the code of what it threw. */
export const isBusy = (code: string): boolean => reasonOfCode(code) === 'busy'

const UNUSABLE: readonly [code: RegExp, what: string][] = [
  [/^SQLITE_NOTADB/, 'is not a database'],
  [/^SQLITE_(CORRUPT|FORMAT)/, 'is damaged'],
  [/^SQLITE_IOERR/, 'cannot be read or written'],
]
/** A statement of ours that does not fit the tables, of which the migrations say that they are there. */
const NO_SUCH = /^no such (table|column)|has no column named/

/** Turns what SQLite threw into a ServiceError where the file is to blame; anything else is returned as it is. */
export function toDatabaseTrouble(path: string, error: unknown): unknown {
  const code = codeOf(error)
  const said = messageOf(error)
  const what = UNUSABLE.find(([pattern]) => pattern.test(code))?.[1]
  if (what) return new ServiceError({ kind: 'database_unusable', path }, `${path} ${what} (${said}).`)
  if (code.startsWith('SQLITE_') && NO_SUCH.test(said))
    return new ServiceError({ kind: 'database_unusable', path }, `${path} is not whole (${said}).`)
  if (/^SQLITE_(READONLY|CANTOPEN|PERM|AUTH)/.test(code))
    return new ServiceError(
      { kind: 'database_unwritable', path },
      `${path} cannot be opened for reading and writing (${said}).`,
    )
  return error
}
