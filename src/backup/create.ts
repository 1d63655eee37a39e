/**
 * Makes a backup: one SQLite file with everything that was on record before it began, checked like the database itself. It may
 * run beside a server, in any process. `VACUUM INTO` reads one snapshot and writes the file in one go: nobody waits for it, and
 * the database's log is not begun anew for as long as it takes. The service behind `tollgate backup`, which the schedule runs.
 */
import {
  appendFileSync,
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  fstatSync,
  lstatSync,
  openSync,
  realpathSync,
  rmSync,
  statSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { timeOfId } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import { auditRows, type Finding, type OnHour, readRejected, recordsOf, requestsOf } from '../ledger/audit.ts'
import { listJournal, toRecordLine } from '../ledger/journal-file.ts'
import { readMark } from '../ledger/mark.ts'
import { readRecords } from '../ledger/segment.ts'
import { isServed } from '../store/data-folder.ts'
import { BACKUPS, beginPart, exists, findLack, finishPart, unwritable } from '../store/files.ts'
import type { LedgerRecord } from '../store/ledger-rows.ts'
import type { LedgerAudit } from '../store/ledger-store.ts'
import { storeOf } from '../store/open.ts'
import { isDiskFull } from '../store/refusal.ts'
import type { Held, Store, StoreCopy } from '../store/store.ts'

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
 * @param source the store of the data folder.
 */
export async function backUp(source: Store, options: BackupOptions): Promise<Backup> {
  const { dataFolder, file, force = false, flush, onStage, onHour } = options
  const wantsSecret = options.withSecret === true && existsSync(join(dataFolder, SECRET))
  const secretFile = wantsSecret ? toSecretFile(file) : null
  for (const path of [file, secretFile]) if (path !== null) requireFree(path, dataFolder, force)
  const lack = findLack(source.space(), dirname(file), dataFolder)
  if (lack !== null) throw unwritable(file, lack)
  const part = beginPart(file)
  try {
    // What is counted after this may come too late for the copy.
    const marked = readMark(dataFolder)
    await flush()
    const { pages, pageBytes } = source.space()
    onStage?.('copying', pages * pageBytes)
    const completed = await makeCopy(source, part, options)
    onStage?.('checking', sizeOf(part))
    const kept = readRejected(dataFolder).flatMap((path) => requestsOf(join(dataFolder, path)))
    const examined = await check(part, options, { marked, kept: [...kept, ...completed.rejected], onHour })
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
async function makeCopy(source: Store, part: string, options: BackupOptions): Promise<Completed> {
  const waiting = beginPart(`${options.file}.journal`)
  try {
    const wasServed = isServed(options.dataFolder)
    keepMissing(source.audit, listJournal(options.dataFolder), waiting)
    source.copyTo(part)
    using copy = await openCopy(options.dataFolder, part)
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

async function check(part: string, { dataFolder, file }: BackupOptions, expected: ExpectedCopy): Promise<Examined> {
  using copy = await openCopy(dataFolder, part, { readonly: true })
  const damage = copy.store.findDamage('all')
  if (damage === null) return await examineCopy(copy, expected)
  throw new ServiceError({ kind: 'backup_damaged', path: file }, `The copy is damaged, and was not kept: ${damage}.`)
}

const openCopy = (dataFolder: string, file: string, options?: { readonly: boolean }): Promise<StoreCopy> =>
  storeOf(dataFolder).openCopy(file, options)

/** Throws a ServiceError where a backup may not be written there: something has the name, or the data folder would suffer. */
function requireFree(file: string, dataFolder: string, force: boolean): void {
  const folder = dirname(file)
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw unwritable(file, `there is no folder ${folder}`)
  const inside = relative(realpathSync(dataFolder), realpathSync(folder))
  if (inside === '' || (!inside.startsWith('..') && inside !== BACKUPS))
    throw unwritable(
      file,
      `that is in the data folder, which has its own files; ${join(dataFolder, BACKUPS)} is for them`,
    )
  const taken = lstatSync(file, { throwIfNoEntry: false })
  if (!taken) return
  if (!taken.isFile()) throw unwritable(file, 'something that is no file has that name')
  if (!force) throw exists(file)
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

const SLICE = 1_000

/** What `completeCopy` has done. */
export interface Completed {
  /** Records that a journal held and the database did not. */
  applied: number
  /** Requests of records that do not fit the tables: a server would set them aside. */
  rejected: string[]
  /** Requests that were under way: nobody can settle them in a copy. They cost what they had reserved. */
  givenUp: number
}

/**
 * @param segments files as the journal has them, however large; nobody writes them any more.
 * @param wasServed whether they were read beside a server. Its retention may have taken rows away meanwhile whose records had been
 *   read: of before what the copy keeps, a record without a row is one of those, and in its sums already.
 */
export async function completeCopy(
  { store: { audit }, writer }: StoreCopy,
  segments: readonly string[],
  wasServed = false,
): Promise<Completed> {
  const keptFromMs = wasServed ? audit.fromMs() : 0
  const isPruned = (record: LedgerRecord) => {
    const [id, ms] =
      record.kind === 'call'
        ? [record.call.requestId, timeOfId(record.call.requestId)]
        : [record.row.id, record.row.createdMs]
    return ms < keptFromMs && !audit.has(id)
  }
  let applied = 0
  const rejected: string[] = []
  for (const path of segments) {
    for (const slice of slicesOf(path)) {
      const records = slice.filter((record) => !isPruned(record))
      const missing = audit.missing(records)
      if (missing === 0) continue
      for (const { record } of await writer.apply(records)) if (record.kind !== 'call') rejected.push(record.row.id)
      applied += missing
    }
  }
  return { applied, rejected, givenUp: await writer.abandonGone(Number.MAX_SAFE_INTEGER) }
}

function* slicesOf(path: string): Generator<LedgerRecord[]> {
  const file = openSync(path, 'r')
  try {
    const end = fstatSync(file).size
    for (let at = 0; at < end; ) {
      const { records, next } = readRecords(file, at, end, SLICE)
      yield records
      at = next
    }
  } finally {
    closeSync(file)
  }
}

/** What it holds, and what is wrong with it: the checks of `tollgate ledger verify`. */
export interface Examined extends Held {
  costNanoUsd: number
  findings: Finding[]
}

interface ExpectedCopy {
  /** Requests that must be there, as a mark counts them; null where there was none. */
  marked?: number | null
  /** Some of them that no database took. */
  kept?: Iterable<string>
  onHour?: OnHour | undefined
}

export async function examineCopy(
  { store: { audit } }: StoreCopy,
  { marked = null, kept = [], onHour }: ExpectedCopy = {},
): Promise<Examined> {
  const { findings, costNanoUsd } = auditRows(audit, onHour)
  for (const rows of audit.open()) findings.push({ kind: 'open', ...rows })
  const held: Held = { requests: audit.count(), newestMs: audit.newestMs() }
  const outside = new Set(kept)
  for (const id of outside) if (audit.has(id)) outside.delete(id)
  const missing = (marked ?? 0) - outside.size - held.requests
  if (missing > 0) findings.push({ kind: 'missing', requests: missing })
  return { ...held, costNanoUsd, findings }
}
