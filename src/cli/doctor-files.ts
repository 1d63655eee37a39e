/**
 * What `doctor` sees of the data folder without opening the database: who may read it, what the journal
 * holds. Only looks.
 */

import { accessSync, constants, type Stats, statSync } from 'node:fs'
import { join } from 'node:path'
import { listScheduled } from '../backup/files.ts'
import { type Check, ok, problem, toFew, warning } from '../documents/checks.ts'
import { codeOf, messageOf } from '../domain/error.ts'
import { count } from '../domain/text.ts'
import { toSpan } from '../domain/time.ts'
import { readRejected, readWaiting } from '../ledger/audit.ts'
import type { Status } from '../server/protocol.ts'
import { BACKUPS } from '../store/copy-file.ts'
import { filesIn } from '../store/disk.ts'
import type { LedgerAudit } from '../store/ledger-store.ts'
import { toMissing } from './doctor-check.ts'
import { toAgo } from './io.ts'

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
  /^(tollgate\.db(-wal|-shm)?|(serve|secret)\.lock|ledger\.mark|control\.sock|secret|journal|spool|backups|restore|logs|run|models\.d|engines)$/

/** Looks at the rights to the folder and what Tollgate keeps in it, and at whom that belongs to. */
function checkModes(dataFolder: string, { mode, uid, gid }: Stats): Check {
  const ours = filesIn(dataFolder).filter((name) => OURS.test(name))
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

/** Looks how old the newest scheduled backup is, against what the server that runs is set to. */
export function checkBackups(dataFolder: string, server: Status | null, nowMs: number): Check {
  const name = 'backup'
  const newest = listScheduled(dataFolder).at(-1)
  const age = newest ? `The newest is of ${toAgo(newest.madeMs, nowMs)}` : 'There is none yet'
  const { every_ms: everyMs = 0, failed = null } = server?.backups ?? {}
  if (failed !== null) return warning(name, `The last scheduled backup was not well: ${failed} ${age}.`)
  const isLate = everyMs > 0 && nowMs - (newest?.madeMs ?? server?.started_ms ?? nowMs) > 2 * everyMs
  if (isLate)
    return warning(name, `${age}, although one is due every ${toSpan(everyMs)}. The log of the server says why.`)
  if (everyMs > 0 || newest) return ok(name, `${age}, in ${join(dataFolder, BACKUPS)}.`)
  return ok(name, 'None is scheduled: serve --backup 24h does that, and `tollgate backup FILE` writes one.')
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
  const folders = ['journal', 'spool'].map((name) => join(dataFolder, name))
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
