/** The configuration of a cluster node in SQLite. */
import { Database, type SQLQueryBindings } from 'bun:sqlite'
import { desc, inArray, isNotNull, notInArray, sql } from 'drizzle-orm'
import { ServiceError } from '../../domain/service-error.ts'
import type { ConfigEntry } from '../config-entry.ts'
import {
  type ChangeLog,
  type ConfigReplica,
  type ConfigSnapshot,
  ENTRY_FORMAT,
  type LoggedEntry,
  type Lost,
  type SnapshotPart,
} from '../config-replica.ts'
import type { AuditRow } from '../config-store.ts'
import {
  applyEntry,
  type Changer,
  type ChangeSteps,
  isKnownKind,
  setChanger,
  tellChange,
  toEntry,
  untilFree,
} from './change.ts'
import { leaveOutbox } from './outbox.ts'
import { OWN_SETTINGS, preparePosition, readPosition, writePosition } from './position.ts'
import { admins, adminTokens, audit, keys, settings, teams, upstreamCredentials } from './schema.ts'
import { type Connection, readRevision, type Transaction, toTables } from './tables.ts'

/** Referenced ones first. */
export const CONFIG_TABLES = [
  ...['catalog_entries', 'upstream_credentials', 'prices', 'catalog_versions', 'settings', 'audit'],
  ...['teams', 'keys', 'key_secrets', 'key_models', 'admins', 'admin_sessions', 'admin_passkeys', 'admin_tokens'],
  ...['alert_targets', 'alert_events', 'alert_deliveries'],
] as const

const OWN = OWN_SETTINGS.map((key) => `'${key}'`).join(', ')
/** Rows per part of a snapshot. */
const PART_ROWS = 1_000
const MAX_LOST = 1_000

/** @param schema newest migration. */
export function createReplica(path: string, sqlite: Database, schema: string): ConfigReplica {
  const database = toTables(sqlite)
  const inTransaction = <T>(work: (tx: Transaction) => T) =>
    untilFree(() => database.transaction(work, { behavior: 'immediate' }))

  const applyAll = async (entries: readonly LoggedEntry[]): Promise<LoggedEntry | null> => {
    const { rest, isNews } = await inTransaction((tx) => applyEntries(database, tx, entries))
    if (isNews) tellChange(sqlite)
    return rest
  }

  return {
    position: preparePosition(database),
    isEmpty: () => [keys, teams, admins, adminTokens, upstreamCredentials].every((table) => isEmpty(database, table)),
    found: (position) => writePosition(database, position),
    leave() {
      writePosition(database, null)
      setChanger(sqlite, null)
      leaveOutbox(sqlite)
    },
    changeThrough: (log) => setChanger(sqlite, createClusterChanger(database, log)),
    async apply(entries) {
      try {
        return await applyAll(entries)
      } catch (error) {
        if (entries.length === 1) throw error
      }
      // If an entry can't be applied, earlier ones still are.
      for (const entry of entries) {
        const rest = await applyAll([entry])
        if (rest) return rest
      }
      return null
    },
    readSnapshot: () => readSnapshot(path, schema),
    async replace(snapshot, entries) {
      const lost = await inTransaction((tx) => {
        const lost = replace(database, tx, snapshot)
        applyEntries(database, tx, entries)
        return lost(tx)
      })
      tellChange(sqlite)
      return lost
    },
  }
}

const isEmpty = (
  database: Connection,
  table: typeof keys | typeof teams | typeof admins | typeof adminTokens | typeof upstreamCredentials,
) => database.select({ one: sql`1` }).from(table).limit(1).get() === undefined

function applyEntries(database: Connection, tx: Transaction, entries: readonly LoggedEntry[]) {
  let position = readPosition(tx)
  let isNews = false
  for (const logged of entries) {
    if (position === null) break
    if (logged.seq <= position.seq) continue
    const entry = logged.seq === position.seq + 1 ? parse(logged) : null
    if (entry === null) {
      writePosition(tx, position)
      return { rest: logged, isNews }
    }
    isNews = applyEntry(database, tx, entry) || isNews
    position = { ...position, seq: logged.seq, last: logged.id }
  }
  if (position) writePosition(tx, position)
  return { rest: null, isNews }
}

/** null for an entry of a newer version. */
function parse({ format, text }: LoggedEntry): ConfigEntry | null {
  if (format > ENTRY_FORMAT) return null
  const entry: ConfigEntry = JSON.parse(text)
  return isKnownKind(entry.kind) ? entry : null
}

/** One change at a time, to avoid conflicts beyond those with other nodes. */
function createClusterChanger(database: Connection, log: ChangeLog): Changer {
  let last: Promise<unknown> = Promise.resolve()
  const changeOnce = async <K extends ConfigEntry['kind'], T>(steps: ChangeSteps<K, T>): Promise<T> => {
    for (;;) {
      const { value, entry, position } = await untilFree(() => propose(database, steps))
      if (entry === null || (await log.commit(position, JSON.stringify(entry)))) return value
    }
  }
  return {
    log,
    change(steps) {
      const turn = last.then(() => changeOnce(steps))
      last = turn.catch(() => {})
      return turn
    },
  }
}

const UNDO = Symbol('undo')

/** Applies the entry and rolls back, because an entry that can't be applied would stop every node. */
function propose<K extends ConfigEntry['kind'], T>(database: Connection, steps: ChangeSteps<K, T>) {
  let proposed: ReturnType<typeof toEntry<K, T>> | null = null
  let position: ReturnType<typeof readPosition> = null
  try {
    database.transaction(
      (tx) => {
        position = readPosition(tx)
        proposed = toEntry(tx, steps)
        if (proposed.entry) applyEntry(database, tx, proposed.entry)
        throw UNDO
      },
      { behavior: 'immediate' },
    )
  } catch (error) {
    if (error !== UNDO) throw error
  }
  if (proposed === null || position === null)
    throw new ServiceError(
      { kind: 'cluster_unreachable', isInDoubt: false },
      'This node has not joined its cluster yet.',
    )
  return { ...(proposed as ReturnType<typeof toEntry<K, T>>), position }
}

async function readSnapshot(path: string, schema: string): Promise<ConfigSnapshot | null> {
  // A separate connection: its transaction may last while the writer continues.
  using reader = new Database(path, { readonly: true })
  reader.run('BEGIN')
  const position = readPosition(toTables(reader))
  if (position === null) return null
  const parts: SnapshotPart[] = []
  for (const table of CONFIG_TABLES) {
    const condition = table === 'settings' ? `AND key NOT IN (${OWN})` : ''
    const rows = reader.query(
      `SELECT rowid, * FROM ${table} WHERE rowid > ? ${condition} ORDER BY rowid LIMIT ${PART_ROWS}`,
    )
    const [, ...columns] = rows.columnNames
    for (let after = -1; ; ) {
      const found = rows.values(after)
      parts.push({ table, columns, rows: found.map(([, ...row]) => row.map(toPlain)) })
      if (found.length < PART_ROWS) break
      after = Number(found.at(-1)?.[0])
      await Bun.sleep(0)
    }
  }
  return { position, schema, parts }
}

const toPlain = (value: unknown) =>
  value instanceof Uint8Array ? { base64: Buffer.from(value).toString('base64') } : value

const fromPlain = (value: unknown) =>
  (typeof value === 'object' && value !== null && 'base64' in value
    ? Buffer.from(String(value.base64), 'base64')
    : value) as SQLQueryBindings

/** Returns a function that finds lost changes, to call once later entries were applied. */
function replace(database: Connection, tx: Transaction, snapshot: ConfigSnapshot): (tx: Transaction) => Lost {
  const sqlite = database.$client
  const isMember = readPosition(tx) !== null
  const had = isMember ? tx.select().from(audit).orderBy(desc(audit.id)).limit(MAX_LOST).all() : []
  const revoked = <Table extends typeof keys | typeof adminTokens>(table: Table) =>
    tx
      .select({ id: table.id })
      .from(table)
      .where(isNotNull(table.revokedMs))
      .all()
      .map(({ id }) => id)
  const [hadKeys, hadTokens] = isMember ? [revoked(keys), revoked(adminTokens)] : [[], []]

  sqlite.run('PRAGMA defer_foreign_keys = ON')
  const revision = readRevision(tx)
  for (const table of CONFIG_TABLES.toReversed())
    if (table === 'settings')
      tx.delete(settings)
        .where(notInArray(settings.key, [...OWN_SETTINGS]))
        .run()
    else sqlite.run(`DELETE FROM ${table}`)
  for (const part of snapshot.parts) putPart(sqlite, part)
  if (revision > 0) raiseRevision(tx, revision)
  writePosition(tx, snapshot.position)

  return (after) => {
    const open = <Table extends typeof keys | typeof adminTokens>(table: Table, ids: readonly string[]) =>
      after
        .select({ id: table.id, ms: table.revokedMs })
        .from(table)
        .where(inArray(table.id, [...ids]))
        .all()
        .flatMap(({ id, ms }) => (ms === null ? id : []))
    const kept = new Set(
      after
        .select({ id: audit.id })
        .from(audit)
        .orderBy(desc(audit.id))
        .limit(MAX_LOST * 2)
        .all()
        .map(({ id }) => id),
    )
    const oldest = [...kept].at(-1) ?? ''
    return {
      audit: had.filter(({ id }): boolean => !kept.has(id) && id > oldest) as AuditRow[],
      keys: open(keys, hadKeys),
      tokens: open(adminTokens, hadTokens),
    }
  }
}

/** Each node has its own revisions. Running parts reload rows with newer revisions. */
function raiseRevision(tx: Transaction, before: number): void {
  const revision = Math.max(before, readRevision(tx)) + 1
  tx.update(keys).set({ revision }).run()
  const set = { value: String(revision), updatedMs: 0 }
  tx.insert(settings)
    .values({ key: 'config_revision', ...set })
    .onConflictDoUpdate({ target: settings.key, set })
    .run()
}

function putPart(sqlite: Database, { table, columns, rows }: SnapshotPart): void {
  const own = new Set(
    sqlite
      .query<{ name: string }, [string]>('SELECT name FROM pragma_table_info(?)')
      .all(table)
      .map(({ name }) => name),
  )
  const unknown = columns.find((column) => !own.has(column))
  if (!CONFIG_TABLES.some((known) => known === table) || unknown !== undefined)
    throw new ServiceError(
      { kind: 'cluster_newer' },
      'The configuration of the cluster is of a newer Tollgate. Upgrade this node.',
    )
  const put = sqlite.query(`INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`)
  for (const row of rows) put.run(...row.map(fromPlain))
}
