/**
 * Restores the copy from before the last migration, for the older version. Later requests become journal segments,
 * which that version applies at its first start: it knows the records, and ignores unknown fields. Before anything is
 * replaced, this is tested on another copy.
 */
import {
  chmodSync,
  constants,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { messageOf } from '../domain/error.ts'
import { parseJson } from '../domain/json.ts'
import { ServiceError } from '../domain/service-error.ts'
import { readRejected } from '../ledger/audit.ts'
import { Lines, toHead } from '../ledger/journal-file.ts'
import { openMark } from '../ledger/mark.ts'
import { recover } from '../ledger/recover.ts'
import type { Log } from '../log.ts'
import type { AuditRow } from '../store/config-store.ts'
import { prepareDataFolder, requireReadable, takeWholeFolder } from '../store/data-folder.ts'
import { freeBytesOf, noRoom, SPARED_BYTES, syncPath } from '../store/files.ts'
import { storeOf } from '../store/open.ts'
import { isDiskFull } from '../store/refusal.ts'
import type { CopyContent, KeptRevocations, MigrationCopy, StoreCopy, StorePlace } from '../store/store.ts'
import { completeCopy } from './create.ts'
import { beginSwap, cancelSwap, findMounted, REPORT, requireSettled, settleSwap, swap } from './replace-database.ts'

export interface RollbackOptions {
  dataFolder: string
  /** This version, which is also recorded in the newer database. */
  version: string
  /** True to replace nothing. */
  dryRun?: boolean
  /** True to undo migrations of an earlier version, too. */
  force?: boolean
  nowMs: number
  onStage?(stage: RollbackStage, bytes: number): void
}

/** In this order. */
export type RollbackStage = 'copying' | 'checking'

/** Is also the JSON of `rollback.json`. */
export interface Rollback {
  copy: Omit<MigrationCopy, 'migrations'>
  /** Migrations that the older version doesn't know. */
  undone: string[]
  /**
   * Requests since the copy. `rejected`: IDs of those that don't fit the older tables; they stay in the journal folder.
   */
  requests: { carried: number; costNanoUsd: string; rejected: string[] }
  /**
   * Keys whose spend differs afterwards, in nano-dollars: since the copy, retention deleted requests, or some were
   * rejected.
   */
  spend: { key: string; name: string | null; newer: string; restored: string }[]
  /** Changes since the copy, which are lost. `name`: the subject's, if it has one. */
  changes: (Pick<AuditRow, 'atMs' | 'actor' | 'action' | 'subject'> & { name: string | null })[]
  kept: KeptRevocations
  /** Where the newer database is; null for a dry run. */
  replaced: string | null
}

/**
 * Finishes an interrupted rollback first, unless it's a dry run. Throws a ServiceError: `already_served`,
 * `rollback_unfinished`, `no_database`, `no_copy`, `migrated_earlier`, `schema_newer`, `no_room`, `backup_unusable`.
 * After an error, the newer database is in place.
 */
export async function rollBack(options: RollbackOptions): Promise<Rollback> {
  const { dataFolder, dryRun = false, nowMs } = options
  const place = storeOf(dataFolder)
  requireReadable(dataFolder)
  // Without hard links, an interrupted rollback may leave no database.
  if (!place.exists() && !existsSync(join(dataFolder, 'rollback')))
    throw new ServiceError({ kind: 'no_database', dataFolder }, `No Tollgate database in ${dataFolder}.`)
  prepareDataFolder(dataFolder)
  using cleanup = new DisposableStack()
  cleanup.defer(takeWholeFolder(dataFolder))
  if (dryRun) requireSettled(dataFolder)
  const settled = settleSwap(dataFolder, 'rollback')
  if (settled.kind === 'finished') return readReport(settled.replaced)
  try {
    const found = await findCopy(place, options)
    await applyJournal(place, options)
    cleanup.defer(() => cancelSwap(dataFolder, 'rollback'))
    const report = await prepare(place, found, options)
    return { ...report, replaced: dryRun ? null : swap(dataFolder, nowMs, 'rollback') }
  } catch (error) {
    throw isDiskFull(error) ? full(dataFolder) : place.explain(error)
  }
}

const mainOf = (place: StorePlace, dataFolder: string) => join(dataFolder, place.files.main)

function readReport(replaced: string): Rollback {
  const report = parseJson(readFileSync(join(replaced, REPORT), 'utf8')) as Report
  return { ...report, replaced }
}

/** `undone`: migrations of the database that the copy lacks. */
interface Found {
  copy: MigrationCopy
  undone: string[]
}

/** The newest copy from before a migration of the database. */
async function findCopy(place: StorePlace, { dataFolder, version, force = false }: RollbackOptions): Promise<Found> {
  const path = mainOf(place, dataFolder)
  using newer = await place.openCopy(path, { readonly: true })
  const none = (isMigrated: boolean, why: string) =>
    new ServiceError({ kind: 'no_copy', isMigrated }, `Nothing to roll back: ${why}.`)
  if (newer.missing().length > 0) throw none(false, "this version hasn't migrated the database")
  const applied = newer.applied()
  for (const copy of place.migrationCopies()) {
    const undone = applied.filter((name) => !copy.migrations.includes(name))
    const isBefore = undone.length > 0 && copy.migrations.every((name) => applied.includes(name))
    if (!isBefore) continue
    if (force || (copy.madeBy ?? version) === version) return { copy, undone }
    throw new ServiceError(
      { kind: 'migrated_earlier', version: copy.madeBy ?? '' },
      `Version ${copy.madeBy} migrated this database, and this one (${version}) has changed nothing.`,
    )
  }
  throw none(true, 'backups/ has no copy from before a migration')
}

/** Like a start, so that the newer database is complete in one file. */
async function applyJournal(place: StorePlace, { dataFolder, version, nowMs }: RollbackOptions): Promise<void> {
  const served = await place.serve({ version, startedMs: nowMs, now: () => nowMs, log: SILENT })
  try {
    const checkpoint = async () => (await served.checkpoint()) !== 'nowhere'
    const store = { ...served.writer, checkpoint }
    await recover({ store, leases: served.leases, dataFolder, instance: INSTANCE, nowMs, log: SILENT })
  } finally {
    served.close()
  }
}

const INSTANCE = 'rollback'

/** No log is needed: rejected records are kept in a file. */
const SILENT: Log = { info() {}, warn() {}, error() {}, flush: async () => {} }

type Report = Omit<Rollback, 'replaced'>

async function prepare(place: StorePlace, { copy, undone }: Found, options: RollbackOptions): Promise<Report> {
  const { dataFolder, nowMs, onStage } = options
  const mounted = findMounted(dataFolder)
  if (mounted !== null)
    throw unusable(copy.path, `can't replace ${join(dataFolder, mounted)}, which is on another disk`)
  const path = mainOf(place, dataFolder)
  const bytes = statSync(copy.path).size
  const needed = bytesFor(bytes, statSync(path).size)
  if (freeBytesOf(dataFolder) < needed) throw noRoom(dataFolder, needed)
  const folder = beginSwap(dataFolder, 'rollback')
  const main = join(folder, place.files.main)
  onStage?.('copying', bytes)
  putCopy(copy.path, main)
  const kept = await completeOlder(place, { copy, undone }, main, nowMs)
  using newer = await place.openCopy(path, { readonly: true })
  const carried = writeSegments(folder, copy, newer.closedSince(copy.path))
  for (const file of readRejected(dataFolder)) putCopy(join(dataFolder, file), join(folder, 'journal', basename(file)))
  syncPath(join(folder, 'journal'))
  onStage?.('checking', statSync(main).size)
  const { requests, rejected, content } = await tryUpdate(place, main, carried.segments, nowMs)
  openMark(folder, requests).close()
  syncPath(join(folder, 'ledger.mark'))
  const { migrations: _, ...named } = copy
  const report: Report = {
    copy: named,
    undone,
    requests: { carried: carried.requests, costNanoUsd: String(carried.costNanoUsd), rejected },
    spend: await toDifferences(newer, content),
    changes: await readChanges(newer, copy.madeMs),
    kept,
  }
  writeFileSync(join(folder, REPORT), JSON.stringify(report, null, 2), { mode: 0o600 })
  syncPath(join(folder, REPORT))
  return report
}

/** Two copies, one of which grows by the requests since. As journal lines, these take two to three times the space. */
const bytesFor = (copy: number, newer: number) => 2 * copy + 4 * Math.max(0, newer - copy) + SPARED_BYTES

const full = (folder: string) => new ServiceError({ kind: 'no_room', folder }, `The disk of ${folder} is full.`)

/** Clones the file if the file system supports it, else copies it. */
function putCopy(from: string, to: string): void {
  copyFileSync(from, to, constants.COPYFILE_FICLONE)
  chmodSync(to, 0o600)
  syncPath(to)
}

/** Keeps what was revoked since the copy, and records the rollback in the audit log. */
async function completeOlder(place: StorePlace, found: Found, main: string, nowMs: number): Promise<KeptRevocations> {
  const { path } = found.copy
  using copy = await openWhole(place, path, main)
  const kept = copy.keepRevocations(await place.readRevocations(BUSY_MS), nowMs)
  copy.forgetSessions()
  copy.failBatches(nowMs)
  const after = { undone: found.undone, kept_revoked: kept.revoked }
  const detail = { name: basename(path), before: {}, after }
  const change = { action: 'database.restore', subject: 'database', detail, write: {} } as const
  await copy.store.config.changeSettings({ actor: 'cli', nowMs }, () => ({ value: null, change }))
  copy[Symbol.dispose]()
  syncPath(main)
  return kept
}

const BUSY_MS = 5_000

async function openWhole(place: StorePlace, file: string, main: string): Promise<StoreCopy> {
  try {
    const copy = await place.openCopy(main)
    const damage = copy.store.findDamage('all')
    if (damage === null) return copy
    copy[Symbol.dispose]()
    throw new Error(damage)
  } catch (error) {
    throw unusable(file, `is damaged: ${messageOf(error)}`)
  }
}

const unusable = (path: string, why: string) => new ServiceError({ kind: 'backup_unusable', path }, `${path} ${why}.`)

/** A start reads each segment into memory. */
const SEGMENT_BYTES = 16 * 1024 * 1024

interface Carried {
  segments: string[]
  requests: number
  costNanoUsd: bigint
}

function writeSegments(
  folder: string,
  { migrations }: MigrationCopy,
  slices: ReturnType<StoreCopy['closedSince']>,
): Carried {
  const journal = join(folder, 'journal')
  mkdirSync(journal, { mode: 0o700 })
  const carried: Carried = { segments: [], requests: 0, costNanoUsd: 0n }
  const lines = new Lines()
  const flush = () => {
    if (lines.length === 0) return
    const path = join(journal, `${INSTANCE}-${carried.segments.length + 1}.log`)
    writeFileSync(path, toHead(migrations.at(-1) ?? ''), { mode: 0o600, flag: 'wx' })
    writeFileSync(path, lines.bytes, { flag: 'a' })
    syncPath(path)
    carried.segments.push(path)
    lines.clear()
  }
  for (const slice of slices)
    for (const { row, calls } of slice) {
      // Calls are complete: older versions may not know which fields newer ones leave out.
      lines.addJson(JSON.stringify({ kind: 'settle', row, ...(calls.length > 0 ? { calls } : {}) }))
      carried.requests++
      carried.costNanoUsd += BigInt(row.costNanoUsd)
      if (lines.length > SEGMENT_BYTES) flush()
    }
  flush()
  return carried
}

/** Applies the segments to a copy, to predict the content that the older version will have. */
async function tryUpdate(place: StorePlace, main: string, segments: readonly string[], nowMs: number) {
  const scratch = `${main}.try`
  try {
    putCopy(main, scratch)
    using copy = await place.openCopy(scratch)
    copy.update(nowMs)
    const { rejected } = await completeCopy(copy, segments)
    return { requests: copy.store.audit.count(), rejected, content: copy.content() }
  } finally {
    for (const ending of ['', '-journal', '-wal', '-shm'])
      if (existsSync(`${scratch}${ending}`)) rmSync(`${scratch}${ending}`)
  }
}

/** Actions whose effect a rollback keeps: on the ledger and files, and revocations. */
const STAYS =
  /^((ledger|backups|sessions|passkeys)\.|(database\.restore|keys\.revoke|keys\.end_overlap|tokens\.revoke|admins\.(code|password|close))$)/

async function readChanges({ store: { config, identity } }: StoreCopy, sinceMs: number): Promise<Rollback['changes']> {
  const people = [...(await identity.readAdmins()), ...(await identity.readTokens())]
  const names = new Map(people.map(({ id, name }) => [id, name]))
  const rows = await config.readAudit({ sinceMs })
  return rows
    .filter(({ action }) => !STAYS.test(action))
    .map(({ atMs, actor, action, subject, detail }) => ({
      ...{ atMs, actor: names.get(actor) ?? actor, action, subject },
      name: typeof detail.name === 'string' ? detail.name : null,
    }))
}

async function toDifferences(newer: StoreCopy, restored: CopyContent): Promise<Rollback['spend']> {
  const { keys } = await newer.store.config.readKeys()
  const names = new Map(keys.map(({ id, name }) => [id, name]))
  const [before, after] = [newer.content(), restored].map(
    (content) => new Map((content.get('spend of keys') ?? []).map((line) => line.split(' ') as [string, string])),
  ) as [Map<string, string>, Map<string, string>]
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((key) => {
    const [is, will] = [before.get(key) ?? '0', after.get(key) ?? '0']
    return is === will ? [] : [{ key, name: names.get(key) ?? null, newer: is, restored: will }]
  })
}
