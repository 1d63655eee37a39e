/**
 * Puts a backup in the place of the database of a data folder. It is copied first, and the copy is checked, brought up to this
 * version and completed; only then does it take the place, and what it replaces is kept (`swap.ts`). The service behind
 * `tollgate restore`.
 */
import type { Database } from 'bun:sqlite'
import { chmodSync, copyFileSync, existsSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { AuditAction } from '../domain/audit.ts'
import { mintId } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import { count } from '../domain/words.ts'
import type { OnHour } from '../ledger/audit.ts'
import { findLost } from '../ledger/lost.ts'
import { openMark } from '../ledger/mark.ts'
import { syncPath } from '../store/disk.ts'
import { isServed, takeLock } from '../store/sqlite/lock.ts'
import { migrate, readSchemaState } from '../store/sqlite/migrate.ts'
import { COMMAND_BUSY_MS, databasePath, openDatabase, prepareDataFolder } from '../store/sqlite/open.ts'
import { toDatabaseTrouble } from '../store/sqlite/trouble.ts'
import {
  type Completed,
  completeCopy,
  type Examined,
  examineCopy,
  findDamage,
  type Held,
  openCopy,
  readHeld,
} from './copy.ts'
import { type Stage, toSecretFile } from './create.ts'
import { listJournal } from './files.ts'
import { type Kept, type Known, keepRevoked, readKnown } from './revoked.ts'
import { beginSwap, cancelSwap, findMounted, settleSwap, swap } from './swap.ts'

export interface RestoreOptions {
  dataFolder: string
  /** Full path of the backup. */
  file: string
  /** Lets keys and secrets in again that were revoked or ended since. */
  asItWas?: boolean
  /** Take it although an audit of it has findings. */
  force?: boolean
  nowMs: number
  onStage?(stage: Stage, bytes: number): void
  onHour?: OnHour
}

export interface Restored extends Examined, Completed {
  /** Where that is which was replaced; null where there was nothing. */
  replaced: string | null
  /** What was not let come back; null where everything was, or nothing was there before. */
  kept: Kept | null
  isSecretRestored: boolean
}

/**
 * Throws a ServiceError: `already_served` while a server has the folder; `backup_unusable`, `schema_newer`, `backup_findings`;
 * `revoked_unknown` where the database that is there cannot be read. Then all is as it was.
 */
export async function restore(options: RestoreOptions): Promise<Restored> {
  const { dataFolder, file, asItWas = false, force = false, nowMs, onStage, onHour } = options
  requireBackup(file, dataFolder)
  prepareDataFolder(dataFolder)
  using cleanup = new DisposableStack()
  cleanup.defer(takeLock(dataFolder))
  settleSwap(dataFolder)
  const mounted = findMounted(dataFolder)
  if (mounted !== null)
    throw unusable(file, `cannot take its place: ${join(dataFolder, mounted)} is on a disk of its own`)
  const before = readReplaced(dataFolder, asItWas)

  const folder = beginSwap(dataFolder)
  cleanup.defer(() => cancelSwap(dataFolder))
  const path = databasePath(folder)
  onStage?.('copying', statSync(file).size)
  copyDatabase(file, path)
  try {
    onStage?.('checking', statSync(path).size)
    using copy = openCopy(path)
    const completed = await prepareCopy(copy, file, nowMs)
    const examined = examineCopy(copy, { onHour })
    if (examined.findings.length > 0 && !force) throw toFindings(file, examined)
    const kept = before && !asItWas ? keepRevoked(copy, before.known, nowMs) : null
    note(copy, options, before, examined, kept)
    copy.close()
    syncPath(path)
    openMark(folder, examined.requests).close()
    syncPath(join(folder, 'ledger.mark'))
    const isSecretRestored = copySecret(file, folder)
    const replaced = swap(dataFolder, nowMs)
    return { ...completed, ...examined, kept, isSecretRestored, replaced: existsSync(replaced) ? replaced : null }
  } catch (error) {
    throw toTrouble(file, path, error)
  }
}

function requireBackup(file: string, dataFolder: string): void {
  const found = statSync(file, { throwIfNoEntry: false })
  if (!found?.isFile()) throw unusable(file, found ? 'is no file' : 'is not there')
  const replaced = statSync(databasePath(dataFolder), { throwIfNoEntry: false })
  if (replaced?.ino === found.ino && replaced.dev === found.dev) throw unusable(file, 'is the database itself')
  if (basename(file) === DATABASE && isServed(dirname(file)))
    throw unusable(file, 'is the database of a running server, of which only `tollgate backup` makes a copy')
}

const DATABASE = 'tollgate.db'

/** What the database that is there says of its keys and its ledger. */
interface Replaced extends Held {
  known: Known
}

/** Null where there was never one, or nobody has to know what it says. */
function readReplaced(dataFolder: string, asItWas: boolean): Replaced | null {
  const path = databasePath(dataFolder)
  const lost = findLost(dataFolder)
  if (lost === null && !existsSync(path)) return null
  const toUnknown = (why: string) =>
    new ServiceError(
      { kind: 'revoked_unknown', dataFolder },
      `Which keys were revoked since the backup cannot be told: ${why}`,
    )
  try {
    if (lost !== null) throw new Error('the database is gone, or empty.')
    using sqlite = openDatabase(path, { busyMs: COMMAND_BUSY_MS, readonly: true })
    return { known: readKnown(sqlite), ...readHeld(sqlite) }
  } catch (error) {
    if (asItWas) return null
    const trouble = toDatabaseTrouble(path, error)
    throw toUnknown(trouble instanceof Error ? trouble.message : String(trouble))
  }
}

/** A plain copy of a data folder may have a part of its database in its log. */
function copyDatabase(file: string, path: string): void {
  for (const ending of ['', '-wal']) {
    if (!existsSync(`${file}${ending}`)) continue
    copyFileSync(`${file}${ending}`, `${path}${ending}`)
    chmodSync(`${path}${ending}`, 0o600)
  }
}

/** Throws where it is not whole, not ours or too new. A data folder that was copied brings its journal. */
async function prepareCopy(copy: Database, file: string, nowMs: number): Promise<Completed> {
  if (readSchemaState(copy).applied.length === 0) throw unusable(file, "is a database, but not one of Tollgate's")
  const damage = findDamage(copy)
  if (damage !== null) throw unusable(file, `is damaged: ${damage}`)
  migrate(copy, null, nowMs)
  copy.run('PRAGMA foreign_keys = ON')
  return completeCopy(copy, basename(file) === DATABASE ? listJournal(dirname(file)) : [])
}

const RESTORE: AuditAction = 'database.restore'

/** Into the audit log of the copy. */
function note(
  copy: Database,
  { file, asItWas = false, nowMs }: RestoreOptions,
  before: Held | null,
  after: Held,
  kept: Kept | null,
): void {
  const toSide = ({ requests, newestMs }: Held) => ({ requests, newest_ms: newestMs })
  const keys = { as_it_was: asItWas, kept_revoked: kept?.revoked ?? [], secrets_ended: kept?.secretsEnded ?? 0 }
  const detail = { name: basename(file), before: before && toSide(before), after: { ...toSide(after), ...keys } }
  copy
    .query('INSERT INTO audit (id, at_ms, actor, action, subject, detail) VALUES (?, ?, ?, ?, ?, ?)')
    .run(mintId(nowMs), nowMs, 'cli', RESTORE, 'database', JSON.stringify(detail))
}

function copySecret(file: string, folder: string): boolean {
  const from = toSecretFile(file)
  if (!existsSync(from)) return false
  const to = join(folder, 'secret')
  copyFileSync(from, to)
  chmodSync(to, 0o600)
  syncPath(to)
  return true
}

const toFindings = (path: string, { findings }: Examined) =>
  new ServiceError(
    { kind: 'backup_findings', path },
    `The ledger of ${path} does not add up: ${count(findings.length, 'finding')}.`,
  )

const unusable = (path: string, why: string) => new ServiceError({ kind: 'backup_unusable', path }, `${path} ${why}.`)

/** What SQLite says of the copy is said of the backup. */
function toTrouble(file: string, path: string, error: unknown): unknown {
  const trouble = toDatabaseTrouble(path, error)
  const isOfFile = trouble instanceof ServiceError && trouble.failure.kind.startsWith('database_')
  if (!isOfFile) return trouble
  return new ServiceError({ kind: 'backup_unusable', path: file }, trouble.message.replaceAll(path, file))
}
