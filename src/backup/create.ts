/**
 * Creates a backup: one verified SQLite file of everything recorded before it began, also while a server runs. `VACUUM INTO` reads one snapshot in one go and
 * blocks no one, but the WAL cannot be reset meanwhile.
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
import type { LedgerContent, Store, StoreCopy } from '../store/store.ts'

/** In this order. */
export type Stage = 'copying' | 'checking'

export interface BackupOptions {
  dataFolder: string
  file: string
  force?: boolean
  /** Also copies the data folder's `secret` to `<file>.secret`, if there is one. */
  withSecret?: boolean
  /** Makes a running server apply its journal; the rest is added from its files. */
  flush(): Promise<unknown>
  /** @param bytes to copy or check. */
  onStage?(stage: Stage, bytes: number): void
  onHour?: OnHour
}

export interface Backup extends ExaminedCopy, CompletedCopy {
  file: string
  bytes: number
  /** Path of the secret; null if not requested or missing. */
  secretFile: string | null
}

const SECRET = 'secret'

export const toSecretFile = (file: string) => `${file}.${SECRET}`

/**
 * Throws a ServiceError: `backup_exists`, `backup_unwritable`, `backup_damaged`; then there is no new file. Findings don't prevent a backup, since the database
 * has them too.
 *
 * @param source the data folder's store.
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
    // Requests counted later may not be in the copy.
    const marked = readMark(dataFolder)
    await flush()
    const { pages, pageBytes } = source.space()
    onStage?.('copying', pages * pageBytes)
    const completed = await makeCopy(source, part, options)
    onStage?.('checking', sizeOf(part))
    const kept = readRejected(dataFolder).flatMap((path) => requestsOf(join(dataFolder, path)))
    const examined = await check(part, options, { marked, kept: [...kept, ...completed.rejected], onHour })
    const bytes = sizeOf(part)
    // Before the backup, so that a backup is never without its secret.
    if (secretFile !== null) putSecret(join(dataFolder, SECRET), secretFile, force)
    finishPart(part, file, force)
    return { file, bytes, secretFile, ...completed, ...examined }
  } catch (error) {
    throw isDiskFull(error) ? unwritable(file, 'the disk is full') : error
  } finally {
    rmSync(part, { force: true })
  }
}

/**
 * Reads the journal before the database, so that records applied in between are in the copy. Missing records go to a file, since they may not fit into memory.
 */
async function makeCopy(source: Store, part: string, options: BackupOptions): Promise<CompletedCopy> {
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

function keepMissing(audit: LedgerAudit, segments: readonly string[], path: string): void {
  for (const segment of segments) {
    const missing = recordsOf(segment).filter((record) => audit.missing([record]) > 0)
    if (missing.length > 0) appendFileSync(path, missing.map(toRecordLine).join(''))
  }
}

async function check(part: string, { dataFolder, file }: BackupOptions, expected: ExpectedCopy): Promise<ExaminedCopy> {
  using copy = await openCopy(dataFolder, part, { readonly: true })
  const damage = copy.store.findDamage('all')
  if (damage === null) return await examineCopy(copy, expected)
  throw new ServiceError({ kind: 'backup_damaged', path: file }, `The copy is damaged and was discarded: ${damage}.`)
}

const openCopy = (dataFolder: string, file: string, options?: { readonly: boolean }): Promise<StoreCopy> =>
  storeOf(dataFolder).openCopy(file, options)

/** Throws a ServiceError if the name is taken or the place unsuitable. */
function requireFree(file: string, dataFolder: string, force: boolean): void {
  const folder = dirname(file)
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw unwritable(file, `folder ${folder} does not exist`)
  const inside = relative(realpathSync(dataFolder), realpathSync(folder))
  if (inside === '' || (!inside.startsWith('..') && inside !== BACKUPS))
    throw unwritable(file, `backups in the data folder must be in ${join(dataFolder, BACKUPS)}`)
  const taken = lstatSync(file, { throwIfNoEntry: false })
  if (!taken) return
  if (!taken.isFile()) throw unwritable(file, 'that name exists and is not a file')
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

export interface CompletedCopy {
  /** Records that were only in a journal. */
  applied: number
  /** Requests whose records don't fit the tables; a server would set them aside. */
  rejected: string[]
  /** Requests that were in flight: they cost their reservation. */
  givenUp: number
}

/**
 * @param segments journal files of any size, no longer written.
 * @param wasServed true if a server ran meanwhile. Its retention may have deleted rows whose records were read: such records from before what the copy keeps
 * are already in its totals.
 */
export async function completeCopy(
  { store: { audit }, writer }: StoreCopy,
  segments: readonly string[],
  wasServed = false,
): Promise<CompletedCopy> {
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

/** The copy's content and the findings of `tollgate ledger verify`. */
export interface ExaminedCopy extends LedgerContent {
  costNanoUsd: number
  findings: Finding[]
}

interface ExpectedCopy {
  /** Expected requests according to the mark; null if there was none. */
  marked?: number | null
  /** Those of them that the database rejected. */
  kept?: Iterable<string>
  onHour?: OnHour | undefined
}

export async function examineCopy(
  { store: { audit } }: StoreCopy,
  { marked = null, kept = [], onHour }: ExpectedCopy = {},
): Promise<ExaminedCopy> {
  const { findings, costNanoUsd } = auditRows(audit, onHour)
  for (const rows of audit.open()) findings.push({ kind: 'open', ...rows })
  const held: LedgerContent = { requests: audit.count(), newestMs: audit.newestMs() }
  const outside = new Set(kept)
  for (const id of outside) if (audit.has(id)) outside.delete(id)
  const missing = (marked ?? 0) - outside.size - held.requests
  if (missing > 0) findings.push({ kind: 'missing', requests: missing })
  return { ...held, costNanoUsd, findings }
}
