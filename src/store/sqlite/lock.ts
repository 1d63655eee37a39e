/**
 * `serve.lock`: a SQLite file under BEGIN EXCLUSIVE. It, not the port, stops a second server on the same data, and it is
 * free the moment its holder dies, however it dies.
 */
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { codeOf } from '../../domain/error.ts'
import { ServiceError } from '../../domain/service-error.ts'

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

const isHeld = (error: unknown) => codeOf(error).startsWith('SQLITE_BUSY')
