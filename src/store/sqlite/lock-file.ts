/** A lock that is freed when its holder dies: a SQLite file under BEGIN EXCLUSIVE. */
import { Database } from 'bun:sqlite'
import { isBusy } from './errors.ts'

/** Outlasts another process checking the lock. */
const PATIENCE_MS = 250

/** Returns the release function; null if taken, even by this process. */
export function lockFile(path: string): (() => void) | null {
  const lock = new Database(path, { create: true, readwrite: true })
  try {
    lock.run(`PRAGMA busy_timeout = ${PATIENCE_MS}`)
    // A journal file would need disk space and outlive a killed holder.
    lock.run('PRAGMA journal_mode = MEMORY')
    lock.run('BEGIN EXCLUSIVE')
  } catch (error) {
    lock.close()
    if (isBusy(error)) return null
    throw error
  }
  return () => lock.close()
}

/** Does not disturb the holder. */
export function isLocked(path: string): boolean {
  try {
    using lock = new Database(path, { readonly: true })
    lock.query('SELECT 1 FROM sqlite_schema').get()
    return false
  } catch (error) {
    return isBusy(error)
  }
}
