/**
 * The store of configuration in SQLite: contract in `../config-store.ts`. Works on the connection that it is given, the
 * server's writer among them, so that nothing here waits between the begin of a transaction and its end.
 */

import type { Database } from 'bun:sqlite'
import { and, desc, eq, gte, inArray, isNotNull, lt, or, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/bun-sqlite'
import { codeOf } from '../../domain/error.ts'
import { mintId, timeOfId } from '../../domain/id.ts'
import type { Actor, AuditQuery, ConfigStore, Decided } from '../config-store.ts'
import { readCatalog, writeCatalog } from './catalog-rows.ts'
import { readVersions, toHistory } from './catalog-versions.ts'
import { createKeyReader, writeKeys } from './key-rows.ts'
import { bumpRevision, readRevision } from './revision.ts'
import * as schema from './schema.ts'
import { createWatch } from './watch.ts'

const { audit, prices, settings, upstreams } = schema

/** The tables of an open database, as drizzle sees them. */
export const toTables = (sqlite: Database) => drizzle(sqlite, { schema })

type Connection = ReturnType<typeof toTables>
export type Transaction = Parameters<Parameters<Connection['transaction']>[0]>[0]

/** Other writers are done within moments; a slice of retention takes a few ms. */
const PATIENCE_MS = 1_000
const AGAIN_MS = 5

/** Tries again where the database is locked: a server's connection never waits inside SQLite. */
async function untilFree<T>(work: () => T): Promise<T> {
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

export function createConfigStore(sqlite: Database): ConfigStore {
  const database = toTables(sqlite)
  const readKeys = createKeyReader()

  function change<Rows, Write, T>(
    by: Actor,
    read: (tx: Transaction) => Rows,
    decide: (rows: Rows) => Decided<Write, T>,
    write: (tx: Transaction, what: Write) => void,
  ): T {
    return database.transaction(
      (tx) => {
        const decided = decide(read(tx))
        for (const [key, value] of Object.entries(decided.settings ?? {})) {
          const set = { value, updatedMs: by.nowMs }
          tx.insert(settings)
            .values({ key, ...set })
            .onConflictDoUpdate({ target: settings.key, set })
            .run()
        }
        if (decided.change === null) return decided.value
        const { write: what, ...record } = decided.change
        write(tx, what)
        bumpRevision(tx, by.nowMs)
        tx.insert(audit)
          .values({ id: toAuditId(tx, by.nowMs), atMs: by.nowMs, actor: by.actor, ...record })
          .run()
        return decided.value
      },
      { behavior: 'immediate' },
    )
  }

  return {
    read: async () =>
      database.transaction((tx) => ({ revision: readRevision(tx), ...readKeys(tx), ...readCatalog(tx) })),
    readKeys: async () => database.transaction(readKeys),
    readCatalog: async () => database.transaction(readCatalog),
    async readSealed() {
      const rows = database.select({ id: upstreams.id }).from(upstreams).where(isNotNull(upstreams.apiKeySealed)).all()
      return rows.map(({ id }) => id)
    },
    async readSettings() {
      const rows = database.select().from(settings).all()
      return Object.fromEntries(rows.map(({ key, value }) => [key, value]))
    },
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
        // Ids are in the order of the changes.
        .orderBy(desc(audit.id))
        .limit(query.limit ?? -1)
        .all(),
    changeKeys: (by, decide) => untilFree(() => change(by, readKeys, decide, writeKeys)),
    readVersions: async () => database.transaction(readVersions),
    readVersion: async (number) => database.transaction((tx) => toHistory(tx).find(number)),
    changeCatalog: (by, decide) =>
      untilFree(() =>
        change(
          by,
          (tx) => ({ rows: readCatalog(tx), history: toHistory(tx) }),
          ({ rows, history }) => decide(rows, history),
          writeCatalog,
        ),
      ),
    watch: (revision, onChange, log) => createWatch(sqlite, revision, onChange, log),
  }
}

const toConditions = ({ sinceMs, actor, action, subjects, before }: AuditQuery) => [
  sinceMs === undefined ? undefined : gte(audit.atMs, sinceMs),
  actor === undefined ? undefined : eq(audit.actor, actor),
  action === undefined
    ? undefined
    : or(eq(audit.action, action), eq(sql`substr(${audit.action}, 1, ${action.length + 1})`, `${action}.`)),
  subjects === undefined ? undefined : inArray(audit.subject, [...subjects]),
  before === undefined ? undefined : lt(audit.id, before),
]

/** An id behind all others: of two commands at a time, the one that began first may change something last. */
function toAuditId(tx: Transaction, nowMs: number): string {
  const last = tx.select({ id: audit.id }).from(audit).orderBy(desc(audit.id)).limit(1).get()
  const id = mintId(nowMs)
  // Ids of one ms are in order as long as none of another time is minted between them.
  return last === undefined || id > last.id ? id : mintId(timeOfId(last.id) + 1)
}
