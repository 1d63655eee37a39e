/** A change is proposed from the rows as an entry (`config-entry.ts`), and applied in the same transaction. */
import type { Database } from 'bun:sqlite'
import { desc, eq, sql } from 'drizzle-orm'
import { codeOf } from '../../domain/error.ts'
import { mintId, timeOfId } from '../../domain/id.ts'
import type { EntryKind, EntryOfKind, EntryWrites } from '../config-entry.ts'
import type { ChangeLog } from '../config-replica.ts'
import type { Actor, AuditEntry, Decided, SettingsWrite } from '../config-store.ts'
import { writeAlerts, writeTargets } from './alert-rows.ts'
import { writeCatalog } from './catalog.ts'
import { writeIdentity, writeSessions } from './identity-rows.ts'
import { writeKeys } from './key-rows.ts'
import { leaveHistory, requireAlone } from './position.ts'
import { writeRemoval } from './prune.ts'
import { audit, settings } from './schema.ts'
import { type Connection, type Transaction, toTables } from './tables.ts'

export interface Proposal<K extends EntryKind, T> {
  value: T
  settings?: SettingsWrite
  /** null: no change. */
  write: EntryWrites[K] | null
  audit?: AuditEntry | null
}

export interface ChangeSteps<K extends EntryKind, T> {
  kind: K
  by: Pick<Actor, 'actor' | 'nowMs'>
  /** Synchronous; may run several times. If it throws, nothing is changed. */
  propose(tx: Transaction): Proposal<K, T>
}

export const toProposal = <K extends EntryKind, T>({
  change,
  ...decided
}: Decided<EntryWrites[K], T>): Proposal<K, T> => {
  if (change === null) return { ...decided, write: null }
  const { write, ...audit } = change
  return { ...decided, write, audit }
}

export interface Changer {
  change<K extends EntryKind, T>(steps: ChangeSteps<K, T>): Promise<T>
  /** Null without a cluster. */
  readonly log: ChangeLog | null
}

const changers = new WeakMap<Database, Changer>()

/** All stores of a connection change through it. */
export const changerOf = (sqlite: Database): Changer =>
  changers.getOrInsertComputed(sqlite, () => createChanger(sqlite, requireAlone))

/** null: changes are local only. */
export function setChanger(sqlite: Database, changer: Changer | null): void {
  if (changer) changers.set(sqlite, changer)
  else changers.delete(sqlite)
}

/** Changes a copy that no node uses. */
export const changeAsCopy = (sqlite: Database): void => setChanger(sqlite, createChanger(sqlite, leaveHistory))

/** @param begin called at the start of each change. */
function createChanger(sqlite: Database, begin: (tx: Transaction) => void): Changer {
  const database = toTables(sqlite)
  return { change: (steps) => untilFree(() => changeHere(database, steps, begin)), log: null }
}

function changeHere<K extends EntryKind, T>(
  database: Connection,
  steps: ChangeSteps<K, T>,
  begin: (tx: Transaction) => void,
): T {
  let isNews = false
  const value = database.transaction(
    (tx) => {
      begin(tx)
      const { entry, value } = toEntry(tx, steps)
      if (entry) isNews = applyEntry(database, tx, entry)
      return value
    },
    { behavior: 'immediate' },
  )
  if (isNews) noteOwnChange(database.$client)
  return value
}

/** Entry null: nothing to write. */
export function toEntry<K extends EntryKind, T>(
  tx: Transaction,
  { kind, by, propose }: ChangeSteps<K, T>,
): { value: T; entry: EntryOfKind<K> | null } {
  const { value, settings = {}, write, audit = null } = propose(tx)
  if (write === null && Object.keys(settings).length === 0) return { value, entry: null }
  const { actor, nowMs } = by
  const row = audit && write && { id: toAuditId(tx, nowMs), atMs: nowMs, actor, ...audit }
  return { value, entry: { kind, nowMs, settings, write, audit: row } }
}

type Kinds = {
  [K in EntryKind]: {
    write(tx: Transaction, what: EntryWrites[K], at: { nowMs: number; sqlite: Database }): void
    /** True if running servers must notice it as a new revision. */
    isNews(what: EntryWrites[K]): boolean
  }
}

const never = () => false

const KINDS: Kinds = {
  keys: { write: writeKeys, isNews: () => true },
  catalog: { write: writeCatalog, isNews: () => true },
  settings: { write: writeSettings, isNews: never },
  identity: {
    write: writeIdentity,
    isNews: ({ keys = [], teams = [] }) => keys.length + teams.length > 0,
  },
  sessions: { write: writeSessions, isNews: never },
  targets: { write: writeTargets, isNews: never },
  alerts: { write: writeAlerts, isNews: never },
  removal: { write: writeRemoval, isNews: ({ keys }) => keys !== undefined },
}

export const isKnownKind = (kind: string): kind is EntryKind => Object.hasOwn(KINDS, kind)

/** Returns whether it is a new revision. */
export function applyEntry<K extends EntryKind>(database: Connection, tx: Transaction, entry: EntryOfKind<K>): boolean {
  const { kind, nowMs, settings, write, audit: row } = entry
  const at = { nowMs, sqlite: database.$client }
  writeSettings(tx, settings, at)
  if (write === null) return false
  KINDS[kind].write(tx, write, at)
  const isNews = KINDS[kind].isNews(write)
  if (isNews) bumpRevision(tx, nowMs)
  if (row) tx.insert(audit).values(row).run()
  return isNews
}

function writeSettings(tx: Transaction, rows: SettingsWrite, { nowMs: updatedMs }: { nowMs: number }): void {
  for (const [key, value] of Object.entries(rows)) {
    if (value === null) {
      tx.delete(settings).where(eq(settings.key, key)).run()
      continue
    }
    const set = { value, updatedMs }
    tx.insert(settings)
      .values({ key, ...set })
      .onConflictDoUpdate({ target: settings.key, set })
      .run()
  }
}

/** Higher than all others, even if the change of another command began later. */
function toAuditId(tx: Transaction, nowMs: number): string {
  const last = tx.select({ id: audit.id }).from(audit).orderBy(desc(audit.id)).limit(1).get()
  const id = mintId(nowMs)
  // IDs of one ms are in order, unless an ID of another ms is created in between.
  return last === undefined || id > last.id ? id : mintId(timeOfId(last.id) + 1)
}

function bumpRevision(tx: Transaction, nowMs: number): void {
  const value = sql`CAST(${settings.value} AS INTEGER) + 1`
  tx.insert(settings)
    .values({ key: 'config_revision', value: '1', updatedMs: nowMs })
    .onConflictDoUpdate({ target: settings.key, set: { value, updatedMs: nowMs } })
    .run()
}

/** A retention slice takes a few ms. */
const PATIENCE_MS = 1_000
const AGAIN_MS = 5

/** A server's connection never waits inside SQLite. */
export async function untilFree<T>(work: () => T): Promise<T> {
  const endMs = performance.now() + PATIENCE_MS
  for (;;) {
    try {
      return work()
    } catch (error) {
      if (!codeOf(error).startsWith('SQLITE_BUSY') || performance.now() >= endMs) throw error
    }
    await Bun.sleep(AGAIN_MS)
  }
}

/** SQLite does not report a connection's own commits to it. */
const ownChanges = new WeakMap<Database, number>()

export const countOwnChanges = (sqlite: Database): number => ownChanges.get(sqlite) ?? 0

const noteOwnChange = (sqlite: Database) => void ownChanges.set(sqlite, countOwnChanges(sqlite) + 1)

const watches = new WeakMap<Database, Set<() => void>>()

/** Calls `look` for changes from other nodes. */
export function addWatch(sqlite: Database, look: () => void): () => void {
  const all = watches.getOrInsertComputed(sqlite, () => new Set())
  all.add(look)
  return () => void all.delete(look)
}

/** Notifies watchers of a change that no local caller applies. */
export function tellChange(sqlite: Database): void {
  noteOwnChange(sqlite)
  for (const look of watches.get(sqlite) ?? []) look()
}
