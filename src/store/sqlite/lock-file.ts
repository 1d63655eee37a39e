/**
 * A lock that is free the moment its holder dies, however it dies: a SQLite file under BEGIN EXCLUSIVE. `../data-folder.ts` says what
 * is locked so.
 */
import { Database } from 'bun:sqlite'
import { isBusy } from './errors.ts'

/** Long enough for `audit`, which looks for an instant whether the lock is held. */
const PATIENCE_MS = 250

/** Returns how it is given back; null where another process, or another part of this one, has it. */
export function lockFile(path: string): (() => void) | null {
  const lock = new Database(path, { create: true, readwrite: true })
  try {
    lock.run(`PRAGMA busy_timeout = ${PATIENCE_MS}`)
    // Nothing is ever written: a journal would only need room on a full disk and outlive a killed holder.
    lock.run('PRAGMA journal_mode = MEMORY')
    lock.run('BEGIN EXCLUSIVE')
  } catch (error) {
    lock.close()
    if (isBusy(error)) return null
    throw error
  }
  return () => lock.close()
}

/** Tells whether somebody has it, without getting in their way. */
export function isLocked(path: string): boolean {
  try {
    using lock = new Database(path, { readonly: true })
    lock.query('SELECT 1 FROM sqlite_schema').get()
    return false
  } catch (error) {
    return isBusy(error)
  }
}
