/**
 * Makes a backup: one SQLite file with everything that was on record before it began, checked like the database itself. It may
 * run beside a server, in any process. `VACUUM INTO` reads one snapshot and writes the file in one go: nobody waits for it, and
 * the database's log is not begun anew for as long as it takes. The service behind `tollgate backup`, which the schedule runs.
 */
import { Database } from 'bun:sqlite'
import { appendFileSync, chmodSync, copyFileSync, existsSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ServiceError } from '../domain/service-error.ts'
import { type OnHour, readRejected, recordsOf, requestsOf } from '../ledger/audit.ts'
import { toRecordLine } from '../ledger/journal-file.ts'
import { readMark } from '../ledger/mark.ts'
import { beginPart, findLack, finishPart, isDiskFull, unwritable } from '../store/copy-file.ts'
import type { LedgerAudit } from '../store/ledger-store.ts'
import { isServed } from '../store/sqlite/database-file.ts'
import { createLedgerAudit } from '../store/sqlite/ledger-audit.ts'
import {
  type Completed,
  completeCopy,
  type Examined,
  type ExpectedCopy,
  examineCopy,
  findDamage,
  openCopy,
} from './copy.ts'
import { listJournal, requireFree } from './files.ts'

/** What takes time, in this order. */
export type Stage = 'copying' | 'checking'

export interface BackupOptions {
  dataFolder: string
  /** Full path of the backup. */
  file: string
  /** Replace what has that name. */
  force?: boolean
  /** Copy the data folder's `secret` to `<file>.secret`, too, where there is one. */
  withSecret?: boolean
  /** Has a server that runs apply its journal; what it does not apply is brought in from its files. */
  flush(): Promise<unknown>
  /** @param bytes of what is copied, or checked. */
  onStage?(stage: Stage, bytes: number): void
  onHour?: OnHour
}

export interface Backup extends Examined, Completed {
  file: string
  bytes: number
  /** Where the secret went; null where it was not asked for, or there is none. */
  secretFile: string | null
}

const SECRET = 'secret'

/** Where the secret of a backup lies. */
export const toSecretFile = (file: string) => `${file}.${SECRET}`

/**
 * Throws a ServiceError: `backup_exists`, `backup_unwritable`, `backup_damaged`; then there is no new file. What an audit finds
 * is no reason to have none: the database has it, too.
 *
 * @param source open on the database of the data folder.
 */
export async function backUp(source: Database, options: BackupOptions): Promise<Backup> {
  const { dataFolder, file, force = false, flush, onStage, onHour } = options
  const wantsSecret = options.withSecret === true && existsSync(join(dataFolder, SECRET))
  const secretFile = wantsSecret ? toSecretFile(file) : null
  for (const path of [file, secretFile]) if (path !== null) requireFree(path, dataFolder, force)
  const lack = findLack(source, dirname(file), dataFolder)
  if (lack !== null) throw unwritable(file, lack)
  const part = beginPart(file)
  try {
    // What is counted after this may come too late for the copy.
    const marked = readMark(dataFolder)
    await flush()
    onStage?.('copying', sizeOf(source.filename))
    const completed = await makeCopy(source, part, options)
    onStage?.('checking', sizeOf(part))
    const kept = readRejected(dataFolder).flatMap((path) => requestsOf(join(dataFolder, path)))
    const examined = check(part, file, { marked, kept: [...kept, ...completed.rejected], onHour })
    const bytes = sizeOf(part)
    // First, so that whoever finds the backup finds it, too.
    if (secretFile !== null) putSecret(join(dataFolder, SECRET), secretFile, force)
    finishPart(part, file, force)
    return { file, bytes, secretFile, ...completed, ...examined }
  } catch (error) {
    throw isDiskFull(error) ? unwritable(file, 'the disk is too full') : error
  } finally {
    rmSync(part, { force: true })
  }
}

/**
 * The journal is read before the database: what a server applies and gives up in between is in the copy. It may be larger than
 * what fits into memory, and so what the copy may lack waits in a file.
 */
async function makeCopy(source: Database, part: string, options: BackupOptions): Promise<Completed> {
  const waiting = beginPart(`${options.file}.journal`)
  try {
    const wasServed = isServed(options.dataFolder)
    keepMissing(createLedgerAudit(source, options.dataFolder), listJournal(options.dataFolder), waiting)
    source.query('VACUUM INTO ?').run(part)
    using copy = openCopy(part)
    return await completeCopy(copy, [waiting], wasServed)
  } finally {
    rmSync(waiting, { force: true })
  }
}

/** Writes those records of the segments that the database does not have into a segment of their own. */
function keepMissing(audit: LedgerAudit, segments: readonly string[], path: string): void {
  for (const segment of segments) {
    const missing = recordsOf(segment).filter((record) => audit.missing([record]) > 0)
    if (missing.length > 0) appendFileSync(path, missing.map(toRecordLine).join(''))
  }
}

function check(part: string, file: string, expected: ExpectedCopy): Examined {
  using copy = new Database(part, { readonly: true })
  const damage = findDamage(copy)
  if (damage === null) return examineCopy(copy, expected)
  throw new ServiceError({ kind: 'backup_damaged', path: file }, `The copy is damaged, and was not kept: ${damage}.`)
}

function putSecret(from: string, file: string, force: boolean): void {
  const part = beginPart(file)
  try {
    copyFileSync(from, part)
    chmodSync(part, 0o600)
    finishPart(part, file, force)
  } finally {
    rmSync(part, { force: true })
  }
}

const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? 0
