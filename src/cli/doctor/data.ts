/** Read-only checks of the data folder: permissions, journal, and database. */

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
import { listDraining } from '../../store/data-folder.ts'
import { filesIn } from '../../store/files.ts'
import type { LedgerAudit, Space } from '../../store/ledger-store.ts'
import { storeOf } from '../../store/open.ts'
import { refusalOf } from '../../store/refusal.ts'
import type { Store, StorePlace } from '../../store/store.ts'
import { toCommandError } from '../command-error.ts'

/** Checks the folder; unless `usable`, nothing in it can be checked. */
export function checkFolder(dataFolder: string, served: boolean): { checks: Check[]; usable: boolean } {
  const name = 'data_folder'
  const broken = (message: string) => ({ checks: [problem(name, message)], usable: false })
  let found: Stats
  try {
    found = statSync(dataFolder)
    if (!found.isDirectory()) return broken(`${dataFolder} is a file. Pass a folder with --data.`)
    accessSync(dataFolder, constants.R_OK | constants.X_OK)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'EACCES' || code === 'EPERM')
      return broken(`This user can't read ${dataFolder}. Run this as the user running the server.`)
    if (code === 'ENOENT' || code === 'ENOTDIR') return broken(toMissing(dataFolder, dataFolder))
    return broken(`Can't read ${dataFolder}: ${messageOf(error)}. Pass another folder with --data.`)
  }
  return { checks: [checkWritable(dataFolder, found, served), checkModes(dataFolder, found)], usable: true }
}

function checkWritable(dataFolder: string, { mode }: Stats, served: boolean): Check {
  // Root can write anywhere, even if the mode forbids it.
  if (whyClosed(dataFolder, constants.W_OK) === null && (mode & constants.S_IWUSR) !== 0)
    return ok('data_folder', dataFolder)
  if (served) return warning('data_folder', `${dataFolder} belongs to another user. This user has read-only access.`)
  return problem(
    'data_folder',
    `This user can't write to ${dataFolder}, so can't start a server on it. Run as its owner.`,
  )
}

/** Error code if this user can't use a folder; else null. */
function whyClosed(folder: string, right: number): string | null {
  try {
    accessSync(folder, right | constants.X_OK)
    return null
  } catch (error) {
    return codeOf(error)
  }
}

/** Permissions of group and others. */
const FOREIGN = 0o077
const OURS =
  /^(cluster|node\.json|(serve|secret)\.lock|ledger\.mark|control\.sock|secret|journal|spool|backups|restore|rollback|logs|run|models\.d|engines)$/

function checkModes(dataFolder: string, { mode, uid, gid }: Stats): Check {
  const { main, sidecars } = storeOf(dataFolder).files
  const ours = filesIn(dataFolder).filter((name) => [main, ...sidecars].includes(name) || OURS.test(name))
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
      `Another user owns ${toFew(foreign)}, so the server may fail. Fix: chown -R ${uid}:${gid} ${dataFolder}`,
    )
  if (open.length === 0) return ok('permissions', 'Only the owner has access.')
  return warning('permissions', `Other users can access ${toFew(open)}. Fix: chmod -R go= ${dataFolder}`)
}

/** Follows links. Null if missing or not accessible. */
function statOf(path: string): Stats | null {
  try {
    return statSync(path)
  } catch {
    return null
  }
}

/**
 * Finds rows missing from the database.
 * @param audit null if the database can't be read.
 * @param living instance of the running server; null = none runs, undefined = unknown.
 */
export function checkJournal(
  audit: LedgerAudit | null,
  dataFolder: string,
  living: string | null | undefined,
): Check[] {
  const folders = JOURNALS.map((name) => join(dataFolder, name))
  const closed = folders.find((folder) => ![null, 'ENOENT'].includes(whyClosed(folder, constants.R_OK)))
  if (closed) return [warning('journal', `This user can't read ${closed}. Run this as the user running the server.`)]
  const checks = readRejected(dataFolder).map((file) =>
    problem('journal', `${file} holds ledger rows that the database rejected. Inspect them, then move the file away.`),
  )
  for (const { file, records } of audit
    ? readWaiting(audit, dataFolder, [...listDraining(dataFolder), ...(living ? [living] : [])])
    : []) {
    const whose =
      living === undefined
        ? 'of the running server or an earlier one.'
        : 'of a stopped server. The next start applies them.'
    checks.push(warning('journal', `${file} holds ${count(records, 'ledger row')} ${whose}`))
  }
  return checks.length > 0 ? checks : [ok('journal', 'No stranded ledger rows.')]
}

/** A smaller difference is a clock correction. */
const SLACK_MS = 60_000

/** Also returns the open database if its tables can be read; the caller closes it. @param isAtRest no server runs. */
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
    const whole = ok('database', `${path} is intact, ${toSizeText(size)}.`)
    const schema = checkSchema(store)
    if (schema.status !== 'ok') return stopAt(whole, schema)
    return { checks: [whole, schema, checkClock(store.audit.newestMs(), nowMs)], store }
  } catch (error) {
    return stopAt(problem('database', toTrouble(place, path, error)))
  }
}

const toDamaged = (path: string, message: string) =>
  `${path} is damaged: ${message}. Stop the server and restore a backup: tollgate restore FILE`

function toTrouble(place: StorePlace, path: string, error: unknown): string {
  if (refusalOf(error)?.reason === 'busy') return `Another process has locked ${path}. Find and stop it: fuser ${path}`
  const trouble = place.explain(error)
  if (trouble instanceof ServiceError) return toCommandError(trouble).message
  return `Can't read ${path}: ${messageOf(error)}. Run this as the user running the server.`
}

function checkSchema(store: Store): Check {
  try {
    return ok('schema', `Up to date (${count(store.requireCurrent(), 'migration')}).`)
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    if (error.failure.kind === 'no_database')
      return problem('schema', 'The database is empty. Starting the server initializes it: tollgate serve')
    return problem('schema', toCommandError(error).message)
  }
}

function checkClock(newestMs: number | null, nowMs: number): Check {
  const aheadMs = (newestMs ?? 0) - nowMs
  if (newestMs === null || aheadMs <= SLACK_MS)
    return ok('clock', `${new Date(nowMs).toISOString()}, consistent with the ledger.`)
  return warning(
    'clock',
    `The newest request is ${toAge(aheadMs)} in the future (${new Date(newestMs).toISOString()}): the clock of this machine was set back or was wrong. Check it; budgets depend on it.`,
  )
}

/** Free space that is not reported. */
const EMPTY_PART = 0.25
const EMPTY_BYTES = 64 * 1024 ** 2

/** Reports much free space in a database that can't shrink automatically. */
export function checkSpace({ pages, freePages, pageBytes, canShrink }: Space, dataFolder: string): Check[] {
  const emptyBytes = freePages * pageBytes
  if (canShrink || emptyBytes < EMPTY_BYTES || freePages < pages * EMPTY_PART) return []
  const message = `${toSizeText(emptyBytes)} of the database's ${toSizeText(pages * pageBytes)} are unused and will be reused. To reclaim them, stop the server and run: tollgate compact --data ${dataFolder}`
  return [warning('empty_space', message)]
}

/** Turns an exception of a check into a problem. */
export async function guarded(name: string, look: () => Check[] | Promise<Check[]>): Promise<Check[]> {
  try {
    return await look()
  } catch (error) {
    return [problem(name, `This check failed: ${messageOf(error).replace(/\.$/, '')}.`)]
  }
}

const toMissing = (path: string, dataFolder: string) =>
  `${path} doesn't exist. Start the server once (tollgate serve --data ${dataFolder}), or pass another folder with --data.`
