/** Rows of keys and teams. Only keys changed since are read again: ten thousand would block the event loop for 0.1 s. */
import type { Database } from 'bun:sqlite'
import { asc, count, eq, gt, inArray, type SQL, sql } from 'drizzle-orm'
import { type Budget, type Limits, PERIODS, type Period } from '../../domain/limits.ts'
import type { KeyRows, KeyWrite, StoredKey, StoredTeam } from '../config-store.ts'
import { keyModels, keySecrets, keys, teams } from './schema.ts'
import { readRevision, type Transaction } from './tables.ts'

/** Above this, one scan is faster. */
const MAX_CHANGED = 500

interface Known {
  revision: number
  keys: readonly StoredKey[]
}

type KeyReader = (tx: Transaction) => KeyRows

const readers = new WeakMap<Database, KeyReader>()

/** Cached per database; cached rows must not be modified. */
export const toKeyReader = (sqlite: Database): KeyReader => readers.getOrInsertComputed(sqlite, createKeyReader)

function createKeyReader(): KeyReader {
  let known: Known | null = null

  return (tx) => {
    const revision = readRevision(tx)
    if (known?.revision !== revision) known = { revision, keys: readKeys(tx, revision, known) }
    return {
      keys: [...known.keys],
      teams: tx.select().from(teams).orderBy(asc(teams.createdMs), asc(teams.id)).all().map(withLimits),
    }
  }
}

function readKeys(tx: Transaction, revision: number, known: Known | null): StoredKey[] {
  if (known === null || revision < known.revision) return readWhere(tx)
  const changed = readIds(tx, known.revision)
  if (changed.length > MAX_CHANGED) return readWhere(tx)
  return withoutRemoved(tx, replace(known.keys, readSome(tx, changed)))
}

/** Drops keys removed by retention. Checking the count is nearly free. */
function withoutRemoved(tx: Transaction, all: StoredKey[]): StoredKey[] {
  if (tx.select({ keys: count() }).from(keys).get()?.keys === all.length) return all
  const ids = new Set(
    tx
      .select({ id: keys.id })
      .from(keys)
      .all()
      .map(({ id }) => id),
  )
  return all.filter(({ id }) => ids.has(id))
}

const readIds = (tx: Transaction, revision: number): string[] =>
  tx
    .select({ id: keys.id })
    .from(keys)
    .where(gt(keys.revision, revision))
    .all()
    .map(({ id }) => id)

const readSome = (tx: Transaction, ids: string[]): StoredKey[] =>
  readWhere(tx, inArray(keys.id, ids), inArray(keyModels.keyId, ids), inArray(keySecrets.keyId, ids))

function readWhere(tx: Transaction, these?: SQL, theirModels?: SQL, theirSecrets?: SQL): StoredKey[] {
  // `orderBy`: the order must not depend on indexes.
  const modelRows = tx.select().from(keyModels).where(theirModels).orderBy(sql`rowid`).all()
  const patterns = Map.groupBy(modelRows, ({ keyId }) => keyId)
  const secretRows = tx
    .select()
    .from(keySecrets)
    .where(theirSecrets)
    .orderBy(asc(keySecrets.createdMs), sql`rowid`)
    .all()
  const secrets = Map.groupBy(secretRows, ({ keyId }) => keyId)
  const keyRows = tx.select().from(keys).where(these).orderBy(asc(keys.createdMs), asc(keys.id)).all()
  return keyRows.map(({ revision: _, ...row }) => ({
    ...withLimits(row),
    models: (patterns.get(row.id) ?? []).map(({ pattern }) => pattern),
    secrets: (secrets.get(row.id) ?? []).map(({ keyId: __, ...secret }) => secret),
  }))
}

function replace(known: readonly StoredKey[], changed: readonly StoredKey[]): StoredKey[] {
  const byId = new Map([...known, ...changed].map((key) => [key.id, key]))
  return [...byId.values()].sort(byAge)
}

const byAge = (a: StoredKey, b: StoredKey) => a.createdMs - b.createdMs || (a.id < b.id ? -1 : 1)

interface LimitColumns extends Limits {
  budgetNanoUsd: number | null
  budgetPeriod: Period | null
}

function withLimits<Row extends LimitColumns>(row: Row) {
  const { rpm, tpm, concurrency, budgetNanoUsd, budgetPeriod, ...rest } = row
  return {
    ...rest,
    limits: { rpm, tpm, concurrency },
    budget: toBudget(budgetNanoUsd, budgetPeriod),
  }
}

/** Throws for a period that only a newer version knows. */
function toBudget(nanoUsd: number | null, period: Period | null): Budget | null {
  if (nanoUsd === null) return null
  if (period !== null && !PERIODS.includes(period)) throw new Error(`unknown budget period '${period}'`)
  return { nanoUsd, period: period ?? 'total' }
}

const toLimitColumns = ({ limits, budget }: Pick<StoredTeam, 'limits' | 'budget'>): LimitColumns => ({
  ...limits,
  budgetNanoUsd: budget?.nanoUsd ?? null,
  budgetPeriod: budget?.period ?? null,
})

export function writeKeys(tx: Transaction, write: KeyWrite): void {
  const revision = readRevision(tx) + 1
  for (const team of write.teams ?? []) writeTeam(tx, team)
  for (const key of write.keys ?? []) writeKey(tx, key, revision)
}

function writeTeam(tx: Transaction, { limits, budget, ...team }: StoredTeam): void {
  const row = { ...team, ...toLimitColumns({ limits, budget }) }
  tx.insert(teams).values(row).onConflictDoUpdate({ target: teams.id, set: row }).run()
}

function writeKey(tx: Transaction, stored: StoredKey, revision: number): void {
  const { limits, budget, models: patterns, secrets, ...key } = stored
  const row = { ...key, revision, ...toLimitColumns({ limits, budget }) }
  tx.insert(keys).values(row).onConflictDoUpdate({ target: keys.id, set: row }).run()
  tx.delete(keyModels).where(eq(keyModels.keyId, key.id)).run()
  for (const pattern of patterns) tx.insert(keyModels).values({ keyId: key.id, pattern }).run()
  tx.delete(keySecrets).where(eq(keySecrets.keyId, key.id)).run()
  for (const secret of secrets)
    tx.insert(keySecrets)
      .values({ keyId: key.id, ...secret })
      .run()
}
