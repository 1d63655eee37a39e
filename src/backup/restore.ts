/**
 * Replaces the database of a data folder with a backup. A copy is checked, migrated, and completed first; the replaced files are kept (`replace-database.ts`).
 */
import { chmodSync, copyFileSync, existsSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import { count } from '../domain/text.ts'
import type { OnHour } from '../ledger/audit.ts'
import { listJournal } from '../ledger/journal-file.ts'
import { findLost, openMark } from '../ledger/mark.ts'
import type { ConfigStore } from '../store/config-store.ts'
import { isServed, prepareDataFolder, takeWholeFolder } from '../store/data-folder.ts'
import { freeBytesOf, noRoom, syncPath } from '../store/files.ts'
import { storeOf } from '../store/open.ts'
import { refusalOf } from '../store/refusal.ts'
import type { KeptRevocations, LedgerContent, Revocations, StoreCopy, StoreFiles, StorePlace } from '../store/store.ts'
import { type CompletedCopy, completeCopy, type ExaminedCopy, examineCopy, type Stage, toSecretFile } from './create.ts'
import { beginSwap, cancelSwap, findMounted, settleSwap, swap } from './replace-database.ts'

export interface RestoreOptions {
  dataFolder: string
  file: string
  /** Reactivates keys, secrets, users, and tokens that were revoked or disabled since. */
  reinstateRevoked?: boolean
  force?: boolean
  nowMs: number
  busyMs?: number
  onStage?(stage: Stage, bytes: number): void
  onHour?: OnHour
}

export interface Restored extends ExaminedCopy, CompletedCopy {
  /** Where the replaced files are; null if there were none. */
  replaced: string | null
  /** What stays revoked; null if everything was reinstated, or nothing existed before. */
  kept: KeptRevocations | null
  isSecretRestored: boolean
}

/**
 * Throws a ServiceError: `already_served` while a server uses the folder; `backup_unusable`, `schema_newer`, `backup_findings`; `no_room`; `revoked_unknown` if
 * the current database is unreadable. Throws SQLite's error if another process locks it. Then nothing has changed.
 */
export async function restore(options: RestoreOptions): Promise<Restored> {
  const {
    dataFolder,
    file,
    reinstateRevoked = false,
    force = false,
    nowMs,
    busyMs = BUSY_MS,
    onStage,
    onHour,
  } = options
  const replacedStore = storeOf(dataFolder)
  requireBackup(file, dataFolder, replacedStore)
  prepareDataFolder(dataFolder)
  using cleanup = new DisposableStack()
  cleanup.defer(takeWholeFolder(dataFolder))
  settleSwap(dataFolder)
  const mounted = findMounted(dataFolder)
  if (mounted !== null)
    throw unusable(file, `cannot replace the database: ${join(dataFolder, mounted)} is on another disk`)
  const before = await readReplaced(replacedStore, dataFolder, reinstateRevoked, busyMs)

  const folder = beginSwap(dataFolder)
  cleanup.defer(() => cancelSwap(dataFolder))
  const { files } = replacedStore
  const path = join(folder, files.main)
  onStage?.('copying', statSync(file).size)
  copyDatabase(file, path, files, dataFolder)
  try {
    onStage?.('checking', statSync(path).size)
    using copy = await replacedStore.openCopy(path)
    const completed = await prepareCopy(copy, file, files, nowMs)
    const examined = await examineCopy(copy, { onHour })
    if (examined.findings.length > 0 && !force) throw toFindings(file, examined)
    const kept = before && !reinstateRevoked ? copy.keepRevocations(before, nowMs) : null
    // Cookies of sessions that ended since must not work again.
    copy.forgetSessions()
    copy.failBatches(nowMs)
    await note(copy.store.config, options, before?.held ?? null, examined, kept)
    copy[Symbol.dispose]()
    syncPath(path)
    openMark(folder, examined.requests).close()
    syncPath(join(folder, 'ledger.mark'))
    const isSecretRestored = copySecret(file, folder)
    const replaced = swap(dataFolder, nowMs)
    return { ...completed, ...examined, kept, isSecretRestored, replaced: existsSync(replaced) ? replaced : null }
  } catch (error) {
    throw toTrouble(storeOf(folder), file, path, error)
  }
}

const BUSY_MS = 5_000

/** Null if there never was one, or it need not be read. */
async function readReplaced(
  store: StorePlace,
  dataFolder: string,
  reinstateRevoked: boolean,
  busyMs: number,
): Promise<Revocations | null> {
  const lost = findLost(dataFolder)
  if (lost === null && !store.exists()) return null
  try {
    if (lost !== null) throw new Error('the database is missing or empty.')
    return await store.readRevocations(busyMs)
  } catch (error) {
    // Another writer would continue to write to the replaced database.
    if (refusalOf(error)?.reason === 'busy') throw error
    if (reinstateRevoked) return null
    throw new ServiceError(
      { kind: 'revoked_unknown', dataFolder },
      `Can't determine which keys were revoked since the backup: ${messageOf(store.explain(error))}`,
    )
  }
}

/** Throws if damaged, not a Tollgate database, or too new. A copied data folder brings its journal. */
async function prepareCopy(copy: StoreCopy, file: string, files: StoreFiles, nowMs: number): Promise<CompletedCopy> {
  const damage = copy.store.findDamage('all')
  if (damage !== null) throw unusable(file, `is damaged: ${damage}`)
  if (!copy.update(nowMs)) throw unusable(file, 'is not a Tollgate database')
  return await completeCopy(copy, isOfFolder(file, files) ? listJournal(dirname(file)) : [])
}

async function note(
  config: ConfigStore,
  { file, reinstateRevoked = false, nowMs }: RestoreOptions,
  before: LedgerContent | null,
  after: LedgerContent,
  kept: KeptRevocations | null,
): Promise<void> {
  const toSide = ({ requests, newestMs }: LedgerContent) => ({ requests, newest_ms: newestMs })
  const keys = {
    reinstate_revoked: reinstateRevoked,
    kept_revoked: kept?.revoked ?? [],
    secrets_ended: kept?.secretsEnded ?? 0,
  }
  const people = { kept_disabled: kept?.people.disabled ?? [], tokens_kept_revoked: kept?.people.tokens ?? [] }
  const is = { ...toSide(after), ...keys, ...people }
  const detail = { name: basename(file), before: before && toSide(before), after: is }
  const change = { action: 'database.restore', subject: 'database', detail, write: {} } as const
  await config.changeSettings({ actor: 'cli', nowMs }, () => ({ value: null, change }))
}

const toFindings = (path: string, { findings }: ExaminedCopy) =>
  new ServiceError(
    { kind: 'backup_findings', path },
    `The ledger of ${path} is inconsistent: ${count(findings.length, 'finding')}.`,
  )

/** Blames the backup for what SQLite reports about the copy. */
function toTrouble(copy: StorePlace, file: string, path: string, error: unknown): unknown {
  const trouble = copy.explain(error)
  const isOfFile = trouble instanceof ServiceError && trouble.failure.kind.startsWith('database_')
  if (!isOfFile) return trouble
  return new ServiceError({ kind: 'backup_unusable', path: file }, trouble.message.replaceAll(path, file))
}

/** True for the database of a copied data folder, with its log and journal. */
const isOfFolder = (file: string, { main }: StoreFiles) => basename(file) === main

const unusable = (path: string, why: string) => new ServiceError({ kind: 'backup_unusable', path }, `${path} ${why}.`)

/** Throws if the file cannot be a backup, by its first bytes, before anything else. */
function requireBackup(file: string, dataFolder: string, store: StorePlace): void {
  const { files } = store
  const found = statSync(file, { throwIfNoEntry: false })
  if (!found?.isFile()) throw unusable(file, found ? 'is not a file' : 'does not exist')
  const replaced = statSync(join(dataFolder, files.main), { throwIfNoEntry: false })
  if (replaced?.ino === found.ino && replaced.dev === found.dev) throw unusable(file, 'is the current database')
  if (isOfFolder(file, files) && isServed(dirname(file)))
    throw unusable(file, 'is the database of a running server: use `tollgate backup` to copy it')
  const why = explainFile(store, file)
  if (why !== null) throw unusable(file, why)
}

function explainFile(store: StorePlace, file: string): string | null {
  try {
    return store.explainFile(file)
  } catch (error) {
    return `cannot be read (${messageOf(error)})`
  }
}

/** A copied data folder may have part of its database in the log. */
function copyDatabase(file: string, path: string, { main, log }: StoreFiles, dataFolder: string): void {
  const endings = ['', log.slice(main.length)].filter((ending) => existsSync(`${file}${ending}`))
  const needed = endings.reduce((sum, ending) => sum + statSync(`${file}${ending}`).size, 0)
  if (freeBytesOf(dataFolder) < needed) throw noRoom(dataFolder, needed)
  try {
    for (const ending of endings) {
      copyFileSync(`${file}${ending}`, `${path}${ending}`)
      chmodSync(`${path}${ending}`, 0o600)
    }
  } catch (error) {
    throw /^(ENOSPC|EDQUOT)$/.test(codeOf(error)) ? noRoom(dataFolder, needed) : error
  }
}

/** True if there was one next to the backup. */
function copySecret(file: string, folder: string): boolean {
  const from = toSecretFile(file)
  if (!existsSync(from)) return false
  const to = join(folder, 'secret')
  copyFileSync(from, to)
  chmodSync(to, 0o600)
  syncPath(to)
  return true
}
