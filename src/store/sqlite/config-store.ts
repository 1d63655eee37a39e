/**
 * The store of configuration in SQLite: contract in `../config-store.ts`. Works on the connection that it is given, the
 * server's writer among them, so that nothing here waits between the begin of a transaction and its end.
 */

import type { Database } from 'bun:sqlite'
import { and, asc, desc, eq, gte, inArray, isNotNull, lt, or, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/bun-sqlite'
import { codeOf } from '../../domain/error.ts'
import { mintId, timeOfId } from '../../domain/id.ts'
import { type Budget, type Limits, PERIODS, type Period } from '../../domain/settings.ts'
import type {
  Actor,
  AuditQuery,
  CatalogRows,
  CatalogWrite,
  ConfigStore,
  Decided,
  KeyRows,
  KeyWrite,
  RouteRow,
  StoredKey,
  StoredTeam,
} from '../config-store.ts'
import { readVersions, toHistory, writeVersions } from './catalog-versions.ts'
import * as schema from './schema.ts'
import { createWatch } from './watch.ts'

const { aliases, audit, keyModels, keySecrets, keys, models, prices, routes, settings, teams, upstreams } = schema

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

function readRevision(tx: Transaction): number {
  return Number(tx.select().from(settings).where(eq(settings.key, 'config_revision')).get()?.value ?? 0)
}

function bumpRevision(tx: Transaction, nowMs: number): void {
  const value = sql`CAST(${settings.value} AS INTEGER) + 1`
  tx.insert(settings)
    .values({ key: 'config_revision', value: '1', updatedMs: nowMs })
    .onConflictDoUpdate({ target: settings.key, set: { value, updatedMs: nowMs } })
    .run()
}

function readKeys(tx: Transaction): KeyRows {
  // By age, so that the same tables give the same order, whatever an index would make of it.
  const patterns = Map.groupBy(tx.select().from(keyModels).orderBy(sql`rowid`).all(), (row) => row.keyId)
  const secrets = Map.groupBy(
    tx.select().from(keySecrets).orderBy(asc(keySecrets.createdMs), sql`rowid`).all(),
    (row) => row.keyId,
  )
  const keyRows = tx.select().from(keys).orderBy(asc(keys.createdMs), asc(keys.id)).all()
  return {
    keys: keyRows.map((row) => ({
      ...withLimits(row),
      models: (patterns.get(row.id) ?? []).map(({ pattern }) => pattern),
      secrets: (secrets.get(row.id) ?? []).map(({ keyId: _, ...secret }) => secret),
    })),
    teams: tx.select().from(teams).orderBy(asc(teams.createdMs), asc(teams.id)).all().map(withLimits),
  }
}

interface LimitColumns extends Limits {
  budgetNanoUsd: number | null
  budgetPeriod: Period | null
}

/** The row of a key or a team, with what it is limited to in place of its columns. */
function withLimits<Row extends LimitColumns>(row: Row) {
  const { requestsPerMinute, tokensPerMinute, concurrency, budgetNanoUsd, budgetPeriod, ...rest } = row
  return {
    ...rest,
    limits: { requestsPerMinute, tokensPerMinute, concurrency },
    budget: toBudget(budgetNanoUsd, budgetPeriod),
  }
}

/** Throws for a period that this version does not know: a newer one may have written it. */
function toBudget(nanoUsd: number | null, period: Period | null): Budget | null {
  if (nanoUsd === null) return null
  if (period !== null && !PERIODS.includes(period)) throw new Error(`there is no budget period '${period}'`)
  return { nanoUsd, period: period ?? 'total' }
}

const toLimitColumns = ({ limits, budget }: Pick<StoredTeam, 'limits' | 'budget'>): LimitColumns => ({
  ...limits,
  budgetNanoUsd: budget?.nanoUsd ?? null,
  budgetPeriod: budget?.period ?? null,
})

function writeKeys(tx: Transaction, write: KeyWrite): void {
  for (const team of write.teams ?? []) writeTeam(tx, team)
  for (const key of write.keys ?? []) writeKey(tx, key)
}

function writeTeam(tx: Transaction, { limits, budget, ...team }: StoredTeam): void {
  const row = { ...team, ...toLimitColumns({ limits, budget }) }
  tx.insert(teams).values(row).onConflictDoUpdate({ target: teams.id, set: row }).run()
}

function writeKey(tx: Transaction, { limits, budget, models: patterns, secrets, ...key }: StoredKey): void {
  const row = { ...key, ...toLimitColumns({ limits, budget }) }
  tx.insert(keys).values(row).onConflictDoUpdate({ target: keys.id, set: row }).run()
  tx.delete(keyModels).where(eq(keyModels.keyId, key.id)).run()
  for (const pattern of patterns) tx.insert(keyModels).values({ keyId: key.id, pattern }).run()
  tx.delete(keySecrets).where(eq(keySecrets.keyId, key.id)).run()
  for (const secret of secrets)
    tx.insert(keySecrets)
      .values({ keyId: key.id, ...secret })
      .run()
}

function readCatalog(tx: Transaction): CatalogRows {
  return {
    upstreams: tx
      .select()
      .from(upstreams)
      .orderBy(sql`rowid`)
      .all()
      .map(({ apiKeySealed: _, ...row }) => row),
    models: tx.select().from(models).orderBy(sql`rowid`).all(),
    routes: tx.select().from(routes).orderBy(sql`rowid`).all(),
    aliases: tx.select().from(aliases).orderBy(sql`rowid`).all(),
  }
}

/** Parents before children, and children deleted before parents: routes refer to models and upstreams. */
function writeCatalog(tx: Transaction, write: CatalogWrite): void {
  for (const rows of toGroups(write.prices)) tx.insert(prices).values(rows).run()
  for (const row of write.routes.delete) tx.delete(routes).where(isRoute(row)).run()
  for (const row of write.aliases.delete) tx.delete(aliases).where(eq(aliases.alias, row.alias)).run()
  for (const row of write.models.delete) tx.delete(models).where(eq(models.slug, row.slug)).run()
  for (const row of write.upstreams.delete) tx.delete(upstreams).where(eq(upstreams.id, row.id)).run()
  for (const rows of toGroups(write.upstreams.create)) tx.insert(upstreams).values(rows).run()
  for (const row of write.upstreams.update) tx.update(upstreams).set(row).where(eq(upstreams.id, row.id)).run()
  for (const rows of toGroups(write.models.create)) tx.insert(models).values(rows).run()
  for (const row of write.models.update) tx.update(models).set(row).where(eq(models.slug, row.slug)).run()
  for (const rows of toGroups(write.routes.create)) tx.insert(routes).values(rows).run()
  for (const row of write.routes.update) tx.update(routes).set(row).where(isRoute(row)).run()
  for (const rows of toGroups(write.aliases.create)) tx.insert(aliases).values(rows).run()
  for (const row of write.aliases.update) tx.update(aliases).set(row).where(eq(aliases.alias, row.alias)).run()
  writeVersions(tx, write)
}

/** How many rows a statement makes: one for each would have each compiled. */
const GROUP = 100

const toGroups = <Row>(rows: readonly Row[]): Row[][] =>
  Array.from({ length: Math.ceil(rows.length / GROUP) }, (_, at) => rows.slice(at * GROUP, (at + 1) * GROUP))

const isRoute = (row: RouteRow) =>
  and(eq(routes.model, row.model), eq(routes.upstream, row.upstream), eq(routes.upstreamModel, row.upstreamModel))
