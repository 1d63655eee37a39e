/** The store of configuration in SQLite. */
import type { Database } from 'bun:sqlite'
import { and, desc, eq, gte, inArray, lt, or, sql } from 'drizzle-orm'
import type { Log } from '../../log.ts'
import type { AuditQuery, ConfigStore, Settings, Watch } from '../config-store.ts'
import { readCatalog, readLayers, readSealed, readVersions, toCatalogEdit, toHistory } from './catalog.ts'
import { addWatch, changerOf, countOwnChanges, toProposal } from './change.ts'
import { toKeyReader } from './key-rows.ts'
import { isSetting } from './position.ts'
import { audit, prices, settings } from './schema.ts'
import { readRevision, type Transaction, toTables } from './tables.ts'

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
    readVersions: async () => database.transaction(readVersions),
    readVersion: async (number) => database.transaction((tx) => toHistory(tx).find(number)),
    changeKeys: (by, decide) =>
      changerOf(sqlite).change({ kind: 'keys', by, propose: (tx) => toProposal(decide(readKeys(tx))) }),
    changeCatalog(by, decide) {
      const propose = (tx: Transaction) => {
        const layers = readLayers(tx)
        const { change, ...decided } = decide(layers, toHistory(tx), () => readSealed(tx, readCatalog(tx).upstreams))
        return toProposal<'catalog', typeof decided.value>({
          ...decided,
          change: change && { ...change, write: toCatalogEdit(tx, layers, change.write) },
        })
      }
      return changerOf(sqlite).change({ kind: 'catalog', by, propose })
    },
    changeSettings: (by, decide) =>
      changerOf(sqlite).change({ kind: 'settings', by, propose: (tx) => toProposal(decide(readSettings(tx))) }),
    watch: (revision, onChange, log) => createWatch(sqlite, revision, onChange, log),
  }
}

const readSettings = (tx: Pick<Transaction, 'select'>): Settings =>
  Object.fromEntries(
    tx
      .select()
      .from(settings)
      .where(isSetting)
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

/** For changes of other processes only. The admin API applies its changes at once. */
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
  let isAskedAgain = false
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
    if (isBusy) {
      isAskedAgain = true
      return
    }
    isBusy = true
    isAskedAgain = false
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
    if (isAskedAgain && !isStopped) void poll()
  }
  const timer = setInterval(poll, POLL_MS)
  const removeWatch = addWatch(writer, poll)

  return {
    healthy: () => healthy,
    stop() {
      isStopped = true
      clearInterval(timer)
      removeWatch()
    },
  }
}
