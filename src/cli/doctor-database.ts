/**
 * What `doctor` sees of the database: whether it opens, is whole, has this binary's schema and sane times. Opens it so that
 * nothing is made or changed, which an ordinary read-only connection to a database in WAL mode would not promise.
 */

import { constants, Database } from 'bun:sqlite'
import { pathToFileURL } from 'node:url'
import { requireSettled } from '../backup/swap.ts'
import { type Check, ok, problem, warning } from '../documents/checks.ts'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import { count } from '../domain/text.ts'
import { findLost, sizeOf } from '../ledger/mark.ts'
import { isBusy, toDatabaseTrouble } from '../store/sqlite/database-file.ts'
import { readSchemaState, requireCurrentSchema } from '../store/sqlite/migrate.ts'
import { databasePath } from '../store/sqlite/open.ts'
import { toCommandError } from './command-error.ts'
import { toMissing, toSize } from './doctor-check.ts'
import { toAge } from './io.ts'

/** A writer holds up a reader for moments only, or for good. */
const BUSY_MS = 1_000
/** A clock that is this little behind the ledger has been corrected, not set wrong. */
const SLACK_MS = 60_000

/**
 * Returns the checks, and the open database where its tables can be read; the caller closes it.
 * @param isAtRest whether no server runs.
 */
export function inspectDatabase(dataFolder: string, { nowMs, isAtRest }: { nowMs: number; isAtRest: boolean }) {
  const path = databasePath(dataFolder)
  let sqlite: Database | null = null
  const stopAt = (...checks: Check[]) => {
    sqlite?.close()
    return { checks, sqlite: null }
  }
  try {
    requireSettled(dataFolder)
    const lost = findLost(dataFolder)
    if (lost !== null) return stopAt(problem('database', lost))
    const size = sizeOf(path)
    if (size === null) return stopAt(problem('database', toMissing(path, dataFolder)))
    sqlite = openUntouched(path, isAtRest)
    const damage = sqlite.query<{ quick_check: string }, []>('PRAGMA quick_check(1)').get()?.quick_check
    if (damage !== 'ok') return stopAt(problem('database', toDamaged(path, damage ?? 'the check says nothing')))
    const whole = ok('database', `${path} is whole, ${toSize(size)}.`)
    const schema = checkSchema(sqlite)
    if (schema.status !== 'ok') return stopAt(whole, schema)
    return { checks: [whole, schema, checkClock(sqlite, nowMs)], sqlite }
  } catch (error) {
    return stopAt(problem('database', toTrouble(path, error)))
  }
}

/**
 * Where no server runs and nothing is in the log, the file alone is all there is, and is read as it stands. Otherwise it is
 * opened like any database in use, whose side files are there already.
 */
function openUntouched(path: string, isAtRest: boolean): Database {
  const flags = constants.SQLITE_OPEN_READONLY | constants.SQLITE_OPEN_URI
  const isWhole = isAtRest && (sizeOf(`${path}-wal`) ?? 0) === 0
  const sqlite = new Database(`${pathToFileURL(path).href}${isWhole ? '?immutable=1' : ''}`, flags)
  sqlite.run(`PRAGMA busy_timeout = ${BUSY_MS}`)
  return sqlite
}

const toDamaged = (path: string, message: string) =>
  `${path} is damaged: ${message}. Stop the server and restore a backup.`

function toTrouble(path: string, error: unknown): string {
  const code = codeOf(error)
  if (isBusy(code)) return `Another process keeps ${path} locked. Find it (fuser ${path}) and end it.`
  const trouble = toDatabaseTrouble(path, error)
  if (trouble instanceof ServiceError) return toCommandError(trouble).message
  return `${path} cannot be read: ${messageOf(error)}. Run this as the user that the server runs as.`
}

function checkSchema(sqlite: Database): Check {
  const { applied } = readSchemaState(sqlite)
  try {
    requireCurrentSchema(sqlite)
    return ok('schema', `As this version has it (${count(applied.length, 'migration')}).`)
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    if (error.failure.kind === 'no_database')
      return problem('schema', 'The database is empty. The next start of the server sets it up.')
    return problem('schema', toCommandError(error).message)
  }
}

/** Ids begin with their time, so that the last one is the newest. */
function checkClock(sqlite: Database, nowMs: number): Check {
  const newest = sqlite
    .query<{ ms: number }, []>('SELECT created_ms AS ms FROM requests ORDER BY id DESC LIMIT 1')
    .get()
  const aheadMs = (newest?.ms ?? 0) - nowMs
  if (newest === null || aheadMs <= SLACK_MS)
    return ok('clock', `${new Date(nowMs).toISOString()}, after all of the ledger.`)
  return warning(
    'clock',
    `The newest request of the ledger is ${toAge(aheadMs)} in the future (${new Date(newest.ms).toISOString()}): this machine's clock was set back, or was wrong. Check it: budgets go by it.`,
  )
}
