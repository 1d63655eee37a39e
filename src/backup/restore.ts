/**
 * Puts a backup in the place of the database of a data folder. It is copied first, and the copy is checked, brought up to this
 * version and completed; only then does it take the place, and what it replaces is kept (`swap.ts`). The service behind
 * `tollgate restore`.
 */
import type { Database } from 'bun:sqlite'
import { chmodSync, closeSync, copyFileSync, existsSync, openSync, readSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { AuditAction } from '../domain/changes.ts'
import { codeOf, messageOf } from '../domain/error.ts'
import { mintId } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import { count } from '../domain/text.ts'
import type { OnHour } from '../ledger/audit.ts'
import { findLost, openMark } from '../ledger/mark.ts'
import { freeBytesOf, syncPath, toMebibytes } from '../store/files.ts'
import { isBusy, isServed, takeLock, toDatabaseTrouble } from '../store/sqlite/database-file.ts'
import { migrate, readSchemaState } from '../store/sqlite/migrate.ts'
import { COMMAND_BUSY_MS, databasePath, openDatabase, prepareDataFolder } from '../store/sqlite/open.ts'
import {
  type Completed,
  completeCopy,
  type Examined,
  examineCopy,
  findDamage,
  type Held,
  openCopy,
  readHeld,
  type Stage,
  toSecretFile,
} from './create.ts'
import { listJournal } from './files.ts'
import {
  endSessions,
  type Kept,
  type KeptPeople,
  type KnownKeys,
  type KnownPeople,
  keepRevoked,
  keepShutOut,
  readKnown,
  readPeople,
} from './shut-out.ts'
import { beginSwap, cancelSwap, findMounted, settleSwap, swap } from './swap.ts'

export interface RestoreOptions {
  dataFolder: string
  /** Full path of the backup. */
  file: string
  /** Lets keys, secrets, people and tokens in again that were revoked, ended or disabled since. */
  asItWas?: boolean
  /** Take it although an audit of it has findings. */
  force?: boolean
  nowMs: number
  /** How long to wait for whoever keeps others from reading the database, ms. */
  busyMs?: number
  onStage?(stage: Stage, bytes: number): void
  onHour?: OnHour
}

export interface Restored extends Examined, Completed {
  /** Where that is which was replaced; null where there was nothing. */
  replaced: string | null
  /** What was not let come back; null where everything was, or nothing was there before. */
  kept: (Kept & { people: KeptPeople }) | null
  isSecretRestored: boolean
}

/**
 * Throws a ServiceError: `already_served` while a server has the folder; `backup_unusable`, `schema_newer`, `backup_findings`;
 * `no_room`; `revoked_unknown` where the database that is there cannot be read. Throws what SQLite says where another process
 * keeps it busy. Then all is as it was.
 */
export async function restore(options: RestoreOptions): Promise<Restored> {
  const { dataFolder, file, asItWas = false, force = false, nowMs, busyMs = COMMAND_BUSY_MS, onStage, onHour } = options
  requireBackup(file, dataFolder)
  prepareDataFolder(dataFolder)
  using cleanup = new DisposableStack()
  cleanup.defer(takeLock(dataFolder))
  settleSwap(dataFolder)
  const mounted = findMounted(dataFolder)
  if (mounted !== null)
    throw unusable(file, `cannot take its place: ${join(dataFolder, mounted)} is on a disk of its own`)
  const before = readReplaced(dataFolder, asItWas, busyMs)

  const folder = beginSwap(dataFolder)
  cleanup.defer(() => cancelSwap(dataFolder))
  const path = databasePath(folder)
  onStage?.('copying', statSync(file).size)
  copyDatabase(file, path, dataFolder)
  try {
    onStage?.('checking', statSync(path).size)
    using copy = openCopy(path)
    const completed = await prepareCopy(copy, file, nowMs)
    const examined = examineCopy(copy, { onHour })
    if (examined.findings.length > 0 && !force) throw toFindings(file, examined)
    const kept =
      before && !asItWas
        ? { ...keepRevoked(copy, before.known, nowMs), people: keepShutOut(copy, before.people) }
        : null
    endSessions(copy)
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

/** What the database that is there says of its keys, its people and its ledger. */
interface Replaced extends Held {
  known: KnownKeys
  people: KnownPeople
}

/** Null where there was never one, or nobody has to know what it says. */
function readReplaced(dataFolder: string, asItWas: boolean, busyMs: number): Replaced | null {
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
    using sqlite = openDatabase(path, { busyMs, readonly: true })
    return { known: readKnown(sqlite), people: readPeople(sqlite), ...readHeld(sqlite) }
  } catch (error) {
    // Whoever writes to it now would write to what is replaced.
    if (isBusy(codeOf(error))) throw error
    if (asItWas) return null
    const trouble = toDatabaseTrouble(path, error)
    throw toUnknown(trouble instanceof Error ? trouble.message : String(trouble))
  }
}

/** Throws where it is not whole, not ours or too new. A data folder that was copied brings its journal. */
async function prepareCopy(copy: Database, file: string, nowMs: number): Promise<Completed> {
  if (readSchemaState(copy).applied.length === 0) throw unusable(file, "is a database, but not one of Tollgate's")
  const damage = findDamage(copy)
  if (damage !== null) throw unusable(file, `is damaged: ${damage}`)
  migrate(copy, null, nowMs)
  copy.run('PRAGMA foreign_keys = ON')
  return completeCopy(copy, isOfFolder(file) ? listJournal(dirname(file)) : [])
}

const RESTORE: AuditAction = 'database.restore'

/** Into the audit log of the copy. */
function note(
  copy: Database,
  { file, asItWas = false, nowMs }: RestoreOptions,
  before: Held | null,
  after: Held,
  kept: Restored['kept'],
): void {
  const toSide = ({ requests, newestMs }: Held) => ({ requests, newest_ms: newestMs })
  const keys = { as_it_was: asItWas, kept_revoked: kept?.revoked ?? [], secrets_ended: kept?.secretsEnded ?? 0 }
  const people = { kept_disabled: kept?.people.disabled ?? [], tokens_kept_revoked: kept?.people.tokens ?? [] }
  const is = { ...toSide(after), ...keys, ...people }
  const detail = { name: basename(file), before: before && toSide(before), after: is }
  copy
    .query('INSERT INTO audit (id, at_ms, actor, action, subject, detail) VALUES (?, ?, ?, ?, ?, ?)')
    .run(mintId(nowMs), nowMs, 'cli', RESTORE, 'database', JSON.stringify(detail))
}

const toFindings = (path: string, { findings }: Examined) =>
  new ServiceError(
    { kind: 'backup_findings', path },
    `The ledger of ${path} does not add up: ${count(findings.length, 'finding')}.`,
  )

/** What SQLite says of the copy is said of the backup. */
function toTrouble(file: string, path: string, error: unknown): unknown {
  const trouble = toDatabaseTrouble(path, error)
  const isOfFile = trouble instanceof ServiceError && trouble.failure.kind.startsWith('database_')
  if (!isOfFile) return trouble
  return new ServiceError({ kind: 'backup_unusable', path: file }, trouble.message.replaceAll(path, file))
}

const DATABASE = 'tollgate.db'

/** Whether it is the database of a data folder that was copied whole, and has a log and a journal beside it. */
const isOfFolder = (file: string) => basename(file) === DATABASE

const unusable = (path: string, why: string) => new ServiceError({ kind: 'backup_unusable', path }, `${path} ${why}.`)

/** Throws where it cannot be one, as far as its first bytes tell: who gives a wrong file is to hear that, and of nothing else first. */
function requireBackup(file: string, dataFolder: string): void {
  const found = statSync(file, { throwIfNoEntry: false })
  if (!found?.isFile()) throw unusable(file, found ? 'is no file' : 'is not there')
  const replaced = statSync(databasePath(dataFolder), { throwIfNoEntry: false })
  if (replaced?.ino === found.ino && replaced.dev === found.dev) throw unusable(file, 'is the database itself')
  if (isOfFolder(file) && isServed(dirname(file)))
    throw unusable(file, 'is the database of a running server, of which only `tollgate backup` makes a copy')
  if (readHead(file) !== HEAD) throw unusable(file, 'is not a database')
}

/** What every SQLite database begins with (https://sqlite.org/fileformat.html). */
const HEAD = 'SQLite format 3\0'

function readHead(file: string): string {
  try {
    const fd = openSync(file, 'r')
    try {
      const head = Buffer.alloc(HEAD.length)
      return head.toString('latin1', 0, readSync(fd, head))
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    throw unusable(file, `cannot be read (${messageOf(error)})`)
  }
}

/** A plain copy of a data folder may have a part of its database in its log. */
function copyDatabase(file: string, path: string, dataFolder: string): void {
  const endings = ['', '-wal'].filter((ending) => existsSync(`${file}${ending}`))
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

const noRoom = (folder: string, bytes: number) =>
  new ServiceError(
    { kind: 'no_room', folder },
    `This needs ${toMebibytes(bytes)} on the disk of ${folder}, which has ${toMebibytes(freeBytesOf(folder))}.`,
  )

/** Tells whether there is one beside the backup. */
function copySecret(file: string, folder: string): boolean {
  const from = toSecretFile(file)
  if (!existsSync(from)) return false
  const to = join(folder, 'secret')
  copyFileSync(from, to)
  chmodSync(to, 0o600)
  syncPath(to)
  return true
}
