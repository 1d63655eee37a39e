/**
 * The schema `tollgate` of PostgreSQL. Migrations only add, so that nodes of the previous version keep working while others are upgraded. All migrations run in
 * one transaction, which also holds the lock. Behind a pooler, other clients would share a session's lock.
 */
import nodes from '../../../postgres/0000_nodes.sql' with { type: 'text' }
import config from '../../../postgres/0001_config.sql' with { type: 'text' }
import ledger from '../../../postgres/0002_ledger.sql' with { type: 'text' }
import limits from '../../../postgres/0003_limits.sql' with { type: 'text' }
import { ServiceError } from '../../domain/service-error.ts'
import { type Postgres, PostgresRefusal, type Queries } from './client.ts'

export interface PostgresMigration {
  name: string
  sql: string
}

/** A test compares it with `postgres/`. */
export const POSTGRES_MIGRATIONS: readonly PostgresMigration[] = [
  { name: '0000_nodes', sql: nodes },
  { name: '0001_config', sql: config },
  { name: '0002_ledger', sql: ledger },
  { name: '0003_limits', sql: limits },
]

/** Advisory locks, by purpose: one number space for the whole database. */
export const LOCKS = { migrate: 0x70_11_6a_00, leader: 0x70_11_6a_01, limits: 0x70_11_6a_02 } as const

/** Oldest supported PostgreSQL, as in `server_version_num`. */
export const MIN_VERSION = 150_000
const MIGRATE_MS = 600_000

/** Returns the names of the applied migrations. Throws a ServiceError or a PostgresRefusal. */
export async function migratePostgres(
  postgres: Postgres,
  known: readonly PostgresMigration[] = POSTGRES_MIGRATIONS,
): Promise<string[]> {
  const [server] = await postgres.query<{ version: number; text: string; encoding: string }>(
    `select current_setting('server_version_num')::int as version, current_setting('server_version') as text,
      current_setting('server_encoding') as encoding`,
  )
  if (!server || server.version < MIN_VERSION)
    throw unusable(`Tollgate needs PostgreSQL 15 or newer (this is ${server?.text ?? 'unknown'}).`)
  if (server.encoding !== 'UTF8')
    throw unusable(`The database must have the encoding UTF8 (this one has ${server.encoding}).`)
  try {
    return await postgres.begin((tx) => migrate(tx, known), { timeoutMs: MIGRATE_MS })
  } catch (error) {
    if (error instanceof PostgresRefusal && error.sqlstate === FORBIDDEN)
      throw unusable(
        `PostgreSQL refused to change the schema: ${error.message}. The role needs CREATE on the database, or must own the schema tollgate.`,
      )
    throw error
  }
}

const FORBIDDEN = '42501'
const unusable = (message: string) => new ServiceError({ kind: 'cluster_unusable' }, message)

async function migrate(tx: Queries, known: readonly PostgresMigration[]): Promise<string[]> {
  await tx.query('select pg_advisory_xact_lock($1::int8)', [LOCKS.migrate])
  const [schema] = await tx.query("select 1 from pg_namespace where nspname = 'tollgate'")
  // Even `if not exists` needs the right to create.
  if (!schema) await tx.query('create schema tollgate')
  const [table] = await tx.query<{ found: string | null }>("select to_regclass('tollgate.migrations')::text as found")
  if (table?.found === null)
    await tx.query('create table tollgate.migrations (name text primary key, at timestamptz not null default now())')
  const rows = await tx.query<{ name: string }>('select name from tollgate.migrations')
  const applied = new Set(rows.map(({ name }) => name))
  const missing = known.filter(({ name }) => !applied.has(name))
  for (const { name, sql } of missing) {
    await tx.query(sql)
    await tx.query('insert into tollgate.migrations (name) values ($1)', [name])
  }
  return missing.map(({ name }) => name)
}
