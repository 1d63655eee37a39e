/** May use the server's writer: nothing may wait within a transaction. */

import type { Database } from 'bun:sqlite'
import { and, desc, eq, gte, inArray, lt, or, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/bun-sqlite'
import { codeOf } from '../../domain/error.ts'
import { mintId, timeOfId } from '../../domain/id.ts'
import type { Log } from '../../log.ts'
import type { Actor, AuditQuery, ConfigStore, Decided, Settings, SettingsWrite, Watch } from '../config-store.ts'
import { readCatalog, readLayers, readSealed, readVersions, toHistory, writeCatalog } from './catalog.ts'
import { toKeyReader, writeKeys } from './key-rows.ts'
import { audit, prices, settings } from './schema.ts'

export const toTables = (sqlite: Database) => drizzle(sqlite)

type Connection = ReturnType<typeof toTables>
export type Transaction = Parameters<Parameters<Connection['transaction']>[0]>[0]

export function createConfigStore(sqlite: Database): ConfigStore {
  const database = toTables(sqlite)
  const readKeys = toKeyReader(sqlite)

  return {
    read: async () =>
      database.transaction((tx) => {
        const rows = readCatalog(tx)
        return { revision: readRevision(tx), sealed: readSealed(tx, rows.upstreams), ...readKeys(tx), ...rows }
      }),
    readRevision: async () => database.transaction(readRevision),
    readKeys: async () => database.transaction(readKeys),
    readCatalog: async () => database.transaction(readCatalog),
    readLayers: async () => database.transaction(readLayers),
    readSealed: async () => database.transaction((tx) => readSealed(tx, readCatalog(tx).upstreams)),
    readSettings: async () => readSettings(database),
    readPrices: async (model) =>
      database
        .select()
        .from(prices)
        .where(eq(prices.model, model))
        .orderBy(desc(prices.createdMs), desc(prices.id))
        .all(),
    readAudit: async (query = {}) =>
      database
        .select()
        .from(audit)
        .where(and(...toConditions(query)))
        .orderBy(desc(audit.id))
        .limit(query.limit ?? -1)
        .all(),
    changeKeys: (by, decide) => untilFree(() => change(database, { by, read: readKeys, decide, write: writeKeys })),
    readVersions: async () => database.transaction(readVersions),
    readVersion: async (number) => database.transaction((tx) => toHistory(tx).find(number)),
    changeCatalog: (by, decide) =>
      untilFree(() =>
        change(database, {
          by,
          read: (tx) => ({
            ...{ layers: readLayers(tx), history: toHistory(tx) },
            sealed: () => readSealed(tx, readCatalog(tx).upstreams),
          }),
          decide: ({ layers, history, sealed }) => decide(layers, history, sealed),
          write: writeCatalog,
        }),
      ),
    changeSettings: (by, decide) =>
      untilFree(() =>
        change(database, {
          ...{ by, read: readSettings, decide },
          write: (tx, rows) => writeSettings(tx, rows, by.nowMs),
          isNews: () => false,
        }),
      ),
    watch: (revision, onChange, log) => createWatch(sqlite, revision, onChange, log),
  }
}

const readSettings = (tx: Pick<Transaction, 'select'>): Settings =>
  Object.fromEntries(
    tx
      .select()
      .from(settings)
      .all()
      .map(({ key, value }) => [key, value]),
  )

const toConditions = ({ sinceMs, actors, action, subjects, before }: AuditQuery) => [
  sinceMs === undefined ? undefined : gte(audit.atMs, sinceMs),
  actors === undefined ? undefined : inArray(audit.actor, [...actors]),
  action === undefined
    ? undefined
    : or(eq(audit.action, action), eq(sql`substr(${audit.action}, 1, ${action.length + 1})`, `${action}.`)),
  subjects === undefined ? undefined : inArray(audit.subject, [...subjects]),
  before === undefined ? undefined : lt(audit.id, before),
]

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

interface ChangeSteps<Rows, Write, T> {
  by: Actor
  read(tx: Transaction): Rows
  decide(rows: Rows): Decided<Write, T>
  write(tx: Transaction, what: Write): void
  /** Running servers must notice the change. */
  isNews?(what: Write): boolean
}

export function change<Rows, Write, T>(
  database: Connection,
  { by, read, decide, write, isNews }: ChangeSteps<Rows, Write, T>,
): T {
  let isNew = false
  const value = database.transaction(
    (tx) => {
      const decided = decide(read(tx))
      writeSettings(tx, decided.settings ?? {}, by.nowMs)
      if (decided.change === null) return decided.value
      const { write: what, ...record } = decided.change
      write(tx, what)
      isNew = isNews?.(what) ?? true
      if (isNew) bumpRevision(tx, by.nowMs)
      tx.insert(audit)
        .values({ id: toAuditId(tx, by.nowMs), atMs: by.nowMs, actor: by.actor, ...record })
        .run()
      return decided.value
    },
    { behavior: 'immediate' },
  )
  if (isNew) noteOwnChange(database.$client)
  return value
}

function writeSettings(tx: Transaction, rows: SettingsWrite, updatedMs: number): void {
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
  // IDs of one ms are in order, unless another time is minted in between.
  return last === undefined || id > last.id ? id : mintId(timeOfId(last.id) + 1)
}

/** 0 before the first change. */
export function readRevision(tx: Transaction): number {
  return Number(tx.select().from(settings).where(eq(settings.key, 'config_revision')).get()?.value ?? 0)
}

function bumpRevision(tx: Transaction, nowMs: number): void {
  const value = sql`CAST(${settings.value} AS INTEGER) + 1`
  tx.insert(settings)
    .values({ key: 'config_revision', value: '1', updatedMs: nowMs })
    .onConflictDoUpdate({ target: settings.key, set: { value, updatedMs: nowMs } })
    .run()
}

/** SQLite does not report a connection's own commits to it. */
const ownChanges = new WeakMap<Database, number>()

const countOwnChanges = (sqlite: Database): number => ownChanges.get(sqlite) ?? 0

const noteOwnChange = (sqlite: Database) => void ownChanges.set(sqlite, countOwnChanges(sqlite) + 1)

/** Of other processes' changes only: the admin API has its own applied at once. */
const POLL_MS = 250

export function createWatch(
  writer: Database,
  revision: number,
  onChange: (revision: number) => Promise<void>,
  log?: Log,
): Watch {
  const version = writer.query<{ data_version: number }, []>('PRAGMA data_version')
  const stored = writer.query<{ value: string }, []>("SELECT value FROM settings WHERE key = 'config_revision'")
  let seenVersion = -1
  let seenOwn = -1
  let seenRevision = revision
  let healthy = true
  let isBusy = false
  let isStopped = false

  const look = async () => {
    const now = version.get()?.data_version ?? -1
    const own = countOwnChanges(writer)
    if (now === seenVersion && own === seenOwn) return
    const current = Number(stored.get()?.value ?? 0)
    if (current !== seenRevision) await onChange(current)
    seenRevision = current
    seenVersion = now
    seenOwn = own
  }
  const poll = async () => {
    if (isBusy) return
    isBusy = true
    try {
      await look()
      if (!healthy) log?.info('config_readable', 'configuration changes are applied again')
      healthy = true
    } catch (error) {
      if (healthy && !isStopped)
        log?.error('config_unreadable', 'cannot read a configuration change; the previous configuration stays active', {
          error: String(error),
        })
      healthy = false
    }
    isBusy = false
  }
  const timer = setInterval(poll, POLL_MS)

  return {
    healthy: () => healthy,
    stop() {
      isStopped = true
      clearInterval(timer)
    },
  }
}
