/**
 * What `doctor` sees of the data folder, without ever making or changing anything: who may read it, the journal, and
 * whether the database opens, is whole, has the schema of this program and sane times.
 */

import { accessSync, constants, type Stats, statSync } from 'node:fs'
import { join } from 'node:path'
import { requireSettled } from '../../backup/replace-database.ts'
import { type Check, ok, problem, toFew, warning } from '../../documents/checks.ts'
import { codeOf, messageOf } from '../../domain/error.ts'
import { ServiceError } from '../../domain/service-error.ts'
import { count, toSizeText } from '../../domain/text.ts'
import { toAge } from '../../domain/time.ts'
import { readRejected, readWaiting } from '../../ledger/audit.ts'
import { JOURNALS } from '../../ledger/journal-file.ts'
import { findLost, sizeOf } from '../../ledger/mark.ts'
import { filesIn } from '../../store/files.ts'
import type { LedgerAudit, Space } from '../../store/ledger-store.ts'
import { storeOf } from '../../store/open.ts'
import { refusalOf } from '../../store/refusal.ts'
import type { Store, StorePlace } from '../../store/store.ts'
import { toCommandError } from '../command-error.ts'

/** Looks at the folder itself. Anything but `usable` means that nothing in it can be looked at. */
export function checkFolder(dataFolder: string, served: boolean): { checks: Check[]; usable: boolean } {
  const name = 'data_folder'
  const broken = (message: string) => ({ checks: [problem(name, message)], usable: false })
  let found: Stats
  try {
    found = statSync(dataFolder)
    if (!found.isDirectory()) return broken(`${dataFolder} is a file. Name a folder with --data.`)
    accessSync(dataFolder, constants.R_OK | constants.X_OK)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'EACCES' || code === 'EPERM')
      return broken(`This user may not look into ${dataFolder}. Run this as the user that the server runs as.`)
    if (code === 'ENOENT' || code === 'ENOTDIR') return broken(toMissing(dataFolder, dataFolder))
    return broken(`${dataFolder} cannot be looked into: ${messageOf(error)}.`)
  }
  return { checks: [checkWritable(dataFolder, found, served), checkModes(dataFolder, found)], usable: true }
}

function checkWritable(dataFolder: string, { mode }: Stats, served: boolean): Check {
  // Root may write anywhere, also where the owner asked for the opposite.
  if (whyClosed(dataFolder, constants.W_OK) === null && (mode & constants.S_IWUSR) !== 0)
    return ok('data_folder', dataFolder)
  if (served)
    return warning('data_folder', `${dataFolder} belongs to another user: this one can look, and change nothing.`)
  return problem('data_folder', `This user cannot write in ${dataFolder}, so a server of this user could not start.`)
}

/** The code of what keeps this user from using a folder; null where nothing does. */
function whyClosed(folder: string, right: number): string | null {
  try {
    accessSync(folder, right | constants.X_OK)
    return null
  } catch (error) {
    return codeOf(error)
  }
}

/** Rights of the group and of others. */
const FOREIGN = 0o077
const OURS =
  /^((serve|secret)\.lock|ledger\.mark|control\.sock|secret|journal|spool|backups|restore|logs|run|models\.d|engines)$/

/** Looks at the rights to the folder and what Tollgate keeps in it, and at whom that belongs to. */
function checkModes(dataFolder: string, { mode, uid, gid }: Stats): Check {
  const { main, beside } = storeOf(dataFolder).files
  const ours = filesIn(dataFolder).filter((name) => [main, ...beside].includes(name) || OURS.test(name))
  const inside = ours.flatMap((name) => [name, ...filesIn(join(dataFolder, name)).map((file) => join(name, file))])
  const open = (mode & FOREIGN) === 0 ? [] : ['the folder']
  const foreign: string[] = []
  for (const name of inside) {
    const found = statOf(join(dataFolder, name))
    if (found === null) continue
    if ((found.mode & FOREIGN) !== 0) open.push(name)
    if (found.uid !== uid) foreign.push(name)
  }
  if (foreign.length > 0)
    return warning(
      'permissions',
      `Another user than the folder's owner owns ${toFew(foreign)}, so the server may fail there. Change the owner with: chown -R ${uid}:${gid} ${dataFolder}`,
    )
  if (open.length === 0) return ok('permissions', 'The folder and what is in it are open to their owner alone.')
  return warning('permissions', `Others than the owner may use ${toFew(open)}. Close them: chmod -R go= ${dataFolder}`)
}

/** Of what a link leads to: its own rights mean nothing. Null for what is gone, or is not for this user. */
function statOf(path: string): Stats | null {
  try {
    return statSync(path)
  } catch {
    return null
  }
}

/**
 * Looks for rows that the database does not have.
 *
 * @param audit null where the database cannot be read.
 * @param living the instance of the running server; null where none runs, undefined where nobody knows which.
 */
export function checkJournal(
  audit: LedgerAudit | null,
  dataFolder: string,
  living: string | null | undefined,
): Check[] {
  const folders = JOURNALS.map((name) => join(dataFolder, name))
  const closed = folders.find((folder) => ![null, 'ENOENT'].includes(whyClosed(folder, constants.R_OK)))
  if (closed) return [warning('journal', `This user may not look into ${closed}.`)]
  const checks = readRejected(dataFolder).map((file) =>
    problem(
      'journal',
      `${file} keeps ledger rows that the database would not take. Look at them, then move the file away.`,
    ),
  )
  for (const { file, records } of audit ? readWaiting(audit, dataFolder, living ?? null) : []) {
    const whose =
      living === undefined
        ? 'of the running server or of one before it.'
        : 'of a server that is gone. The next start applies them.'
    checks.push(warning('journal', `${file} holds ${count(records, 'ledger row')} ${whose}`))
  }
  return checks.length > 0 ? checks : [ok('journal', 'No ledger rows wait that nobody sees to.')]
}

/** A clock that is this little behind the ledger has been corrected, not set wrong. */
const SLACK_MS = 60_000

/**
 * Returns the checks, and the open database where its tables can be read; the caller closes it.
 * @param isAtRest whether no server runs.
 */
export function inspectDatabase(dataFolder: string, { nowMs, isAtRest }: { nowMs: number; isAtRest: boolean }) {
  const place = storeOf(dataFolder)
  const path = join(dataFolder, place.files.main)
  let store: Store | null = null
  const stopAt = (...checks: Check[]) => {
    store?.close()
    return { checks, store: null }
  }
  try {
    requireSettled(dataFolder)
    const lost = findLost(dataFolder)
    if (lost !== null) return stopAt(problem('database', lost))
    const size = sizeOf(path)
    if (size === null) return stopAt(problem('database', toMissing(path, dataFolder)))
    store = place.open({ untouched: isAtRest ? 'at_rest' : 'served' })
    const damage = store.findDamage('quick')
    if (damage !== null) return stopAt(problem('database', toDamaged(path, damage)))
    const whole = ok('database', `${path} is whole, ${toSizeText(size)}.`)
    const schema = checkSchema(store)
    if (schema.status !== 'ok') return stopAt(whole, schema)
    return { checks: [whole, schema, checkClock(store.audit.newestMs(), nowMs)], store }
  } catch (error) {
    return stopAt(problem('database', toTrouble(place, path, error)))
  }
}

const toDamaged = (path: string, message: string) =>
  `${path} is damaged: ${message}. Stop the server and restore a backup.`

function toTrouble(place: StorePlace, path: string, error: unknown): string {
  if (refusalOf(error)?.reason === 'busy')
    return `Another process keeps ${path} locked. Find it (fuser ${path}) and end it.`
  const trouble = place.explain(error)
  if (trouble instanceof ServiceError) return toCommandError(trouble).message
  return `${path} cannot be read: ${messageOf(error)}. Run this as the user that the server runs as.`
}

function checkSchema(store: Store): Check {
  try {
    return ok('schema', `As this version has it (${count(store.requireCurrent(), 'migration')}).`)
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    if (error.failure.kind === 'no_database')
      return problem('schema', 'The database is empty. The next start of the server sets it up.')
    return problem('schema', toCommandError(error).message)
  }
}

function checkClock(newestMs: number | null, nowMs: number): Check {
  const aheadMs = (newestMs ?? 0) - nowMs
  if (newestMs === null || aheadMs <= SLACK_MS)
    return ok('clock', `${new Date(nowMs).toISOString()}, after all of the ledger.`)
  return warning(
    'clock',
    `The newest request of the ledger is ${toAge(aheadMs)} in the future (${new Date(newestMs).toISOString()}): this machine's clock was set back, or was wrong. Check it: budgets go by it.`,
  )
}

/** Of a database, what may be empty without a word. */
const EMPTY_PART = 0.25
const EMPTY_BYTES = 64 * 1024 ** 2

/** Says how much of the database's file is empty, where that is much and does not go by itself. */
export function checkSpace({ pages, freePages, pageBytes, canShrink }: Space, dataFolder: string): Check[] {
  const emptyBytes = freePages * pageBytes
  if (canShrink || emptyBytes < EMPTY_BYTES || freePages < pages * EMPTY_PART) return []
  const message = `${toSizeText(emptyBytes)} of the database's ${toSizeText(pages * pageBytes)} are empty: they are used again before it grows. To give them back to the disk, stop the server and run: tollgate compact --data ${dataFolder}`
  return [warning('empty_space', message)]
}

/** Runs checks of something that may be broken in ways that they do not expect. */
export async function guarded(name: string, look: () => Check[] | Promise<Check[]>): Promise<Check[]> {
  try {
    return await look()
  } catch (error) {
    return [problem(name, `This check failed: ${messageOf(error).replace(/\.$/, '')}.`)]
  }
}

/** Says that a path is not there yet, and how it comes about. */
const toMissing = (path: string, dataFolder: string) =>
  `There is no ${path} yet. Start the server once (tollgate serve --data ${dataFolder}), or name another folder with --data.`
