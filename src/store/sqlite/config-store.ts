/**
 * The store of configuration in SQLite: contract in `../config-store.ts`. Works on the connection that it is given, the
 * server's writer among them, so that nothing here waits between the begin of a transaction and its end.
 */

import type { Database } from 'bun:sqlite'
import { and, desc, eq, gte, inArray, lt, or, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/bun-sqlite'
import type { AuditQuery, ConfigStore, Settings } from '../config-store.ts'
import { readCatalog, readSealed, writeCatalog } from './catalog-rows.ts'
import { readVersions, toHistory } from './catalog-versions.ts'
import { change, untilFree, writeSettings } from './change.ts'
import { toKeyReader, writeKeys } from './key-rows.ts'
import { readRevision } from './revision.ts'
import * as schema from './schema.ts'
import { createWatch } from './watch.ts'

const { audit, prices, settings } = schema

/** The tables of an open database, as drizzle sees them. */
export const toTables = (sqlite: Database) => drizzle(sqlite, { schema })

export type Connection = ReturnType<typeof toTables>
export type Transaction = Parameters<Parameters<Connection['transaction']>[0]>[0]

export function createConfigStore(sqlite: Database): ConfigStore {
  const database = toTables(sqlite)
  const readKeys = toKeyReader(sqlite)

  return {
    read: async () =>
      database.transaction((tx) => ({
        revision: readRevision(tx),
        sealed: readSealed(tx),
        ...readKeys(tx),
        ...readCatalog(tx),
      })),
    readRevision: async () => database.transaction(readRevision),
    readKeys: async () => database.transaction(readKeys),
    readCatalog: async () => database.transaction(readCatalog),
    readSealed: async () => database.transaction(readSealed),
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
        // Ids are in the order of the changes.
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
          read: (tx) => ({ rows: readCatalog(tx), history: toHistory(tx) }),
          decide: ({ rows, history }) => decide(rows, history),
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
