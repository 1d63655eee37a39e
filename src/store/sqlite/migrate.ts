/**
 * Runs the generated migrations in one transaction, after a copy to `backups/`. Foreign keys are off before the transaction (inside it the pragma has no effect,
 * and a rebuilt table would delete its children), and checked after each migration.
 */
import type { Database } from 'bun:sqlite'
import { dirname } from 'node:path'
import initial from '../../../drizzle/0000_initial.sql' with { type: 'text' }
import routeFacts from '../../../drizzle/0001_route_facts.sql' with { type: 'text' }
import endpointsAndTeams from '../../../drizzle/0002_endpoints_and_teams.sql' with { type: 'text' }
import audioAndImages from '../../../drizzle/0003_audio_and_images.sql' with { type: 'text' }
import listedAliases from '../../../drizzle/0004_listed_aliases.sql' with { type: 'text' }
import allowedIps from '../../../drizzle/0005_allowed_ips.sql' with { type: 'text' }
import whatEachCallCost from '../../../drizzle/0006_what_each_call_cost.sql' with { type: 'text' }
import teamLimits from '../../../drizzle/0007_team_limits.sql' with { type: 'text' }
import catalogVersions from '../../../drizzle/0008_catalog_versions.sql' with { type: 'text' }
import keyUses from '../../../drizzle/0009_key_uses.sql' with { type: 'text' }
import spendingIndex from '../../../drizzle/0010_spending_index.sql' with { type: 'text' }
import teamIndex from '../../../drizzle/0011_team_index.sql' with { type: 'text' }
import keyRevision from '../../../drizzle/0012_key_revision.sql' with { type: 'text' }
import identity from '../../../drizzle/0013_identity.sql' with { type: 'text' }
import hiddenKeys from '../../../drizzle/0014_hidden_keys.sql' with { type: 'text' }
import usageByDay from '../../../drizzle/0015_usage_by_day.sql' with { type: 'text' }
import failuresIndex from '../../../drizzle/0016_failures_index.sql' with { type: 'text' }
import whatHadEnded from '../../../drizzle/0017_what_had_ended.sql' with { type: 'text' }
import passkeys from '../../../drizzle/0018_passkeys.sql' with { type: 'text' }
import routeOptions from '../../../drizzle/0019_route_options.sql' with { type: 'text' }
import usageWithin from '../../../drizzle/0020_usage_within.sql' with { type: 'text' }
import howCallsWereServed from '../../../drizzle/0021_how_calls_were_served.sql' with { type: 'text' }
import severalCredentials from '../../../drizzle/0022_several_credentials.sql' with { type: 'text' }
import fromList from '../../../drizzle/0023_from_list.sql' with { type: 'text' }
import credentialOfCalls from '../../../drizzle/0024_credential_of_calls.sql' with { type: 'text' }
import computeMs from '../../../drizzle/0025_compute_ms.sql' with { type: 'text' }
import ceilings from '../../../drizzle/0026_ceilings.sql' with { type: 'text' }
import aRowForEachCall from '../../../drizzle/0027_a_row_for_each_call.sql' with { type: 'text' }
import catalogLayers from '../../../drizzle/0028_catalog_layers.sql' with { type: 'text' }
import instances from '../../../drizzle/0029_instances.sql' with { type: 'text' }
import publicNames from '../../../drizzle/0030_public_names.sql' with { type: 'text' }
import refusals from '../../../drizzle/0031_refusals.sql' with { type: 'text' }
import alerts from '../../../drizzle/0032_alerts.sql' with { type: 'text' }
import clusterOutbox from '../../../drizzle/0033_cluster_outbox.sql' with { type: 'text' }
import otherUnits from '../../../drizzle/0034_other_units.sql' with { type: 'text' }
import batches from '../../../drizzle/0035_batches.sql' with { type: 'text' }
import { ServiceError } from '../../domain/service-error.ts'
import { dropOtherCopies, keepCopy, readApplied, readVersion } from './migration-copies.ts'

export interface Migration {
  name: string
  sql: string
}

/** A test compares it with `drizzle/`. */
export const MIGRATIONS: readonly Migration[] = [
  { name: '0000_initial', sql: initial },
  { name: '0001_route_facts', sql: routeFacts },
  { name: '0002_endpoints_and_teams', sql: endpointsAndTeams },
  { name: '0003_audio_and_images', sql: audioAndImages },
  { name: '0004_listed_aliases', sql: listedAliases },
  { name: '0005_allowed_ips', sql: allowedIps },
  { name: '0006_what_each_call_cost', sql: whatEachCallCost },
  { name: '0007_team_limits', sql: teamLimits },
  { name: '0008_catalog_versions', sql: catalogVersions },
  { name: '0009_key_uses', sql: keyUses },
  { name: '0010_spending_index', sql: spendingIndex },
  { name: '0011_team_index', sql: teamIndex },
  { name: '0012_key_revision', sql: keyRevision },
  { name: '0013_identity', sql: identity },
  { name: '0014_hidden_keys', sql: hiddenKeys },
  { name: '0015_usage_by_day', sql: usageByDay },
  { name: '0016_failures_index', sql: failuresIndex },
  { name: '0017_what_had_ended', sql: whatHadEnded },
  { name: '0018_passkeys', sql: passkeys },
  { name: '0019_route_options', sql: routeOptions },
  { name: '0020_usage_within', sql: usageWithin },
  { name: '0021_how_calls_were_served', sql: howCallsWereServed },
  { name: '0022_several_credentials', sql: severalCredentials },
  { name: '0023_from_list', sql: fromList },
  { name: '0024_credential_of_calls', sql: credentialOfCalls },
  { name: '0025_compute_ms', sql: computeMs },
  { name: '0026_ceilings', sql: ceilings },
  { name: '0027_a_row_for_each_call', sql: aRowForEachCall },
  { name: '0028_catalog_layers', sql: catalogLayers },
  { name: '0029_instances', sql: instances },
  { name: '0030_public_names', sql: publicNames },
  { name: '0031_refusals', sql: refusals },
  { name: '0032_alerts', sql: alerts },
  { name: '0033_cluster_outbox', sql: clusterOutbox },
  { name: '0034_other_units', sql: otherUnits },
  { name: '0035_batches', sql: batches },
]

export interface SchemaState {
  applied: string[]
  missing: Migration[]
  /** Migrations of a newer Tollgate. */
  unknown: string[]
}

export function readSchemaState(sqlite: Database, known: readonly Migration[] = MIGRATIONS): SchemaState {
  const applied = readApplied(sqlite)
  const names = new Set(known.map((migration) => migration.name))
  return {
    applied,
    missing: known.filter((migration) => !applied.includes(migration.name)),
    unknown: applied.filter((name) => !names.has(name)),
  }
}

/**
 * @param dataFolder folder for a copy of the database; null if the database is a copy itself.
 * @param version of this Tollgate, named by the copy.
 */
export function migrate(
  sqlite: Database,
  dataFolder: string | null,
  nowMs: number,
  known: readonly Migration[] = MIGRATIONS,
  version: string | null = null,
): void {
  const state = readSchemaState(sqlite, known)
  if (state.unknown.length > 0) throw newerSchema(sqlite, state.unknown)
  if (state.missing.length === 0) return
  const isNew = state.applied.length === 0
  if (isNew) requireEmpty(sqlite)
  const copy = isNew || dataFolder === null ? null : keepCopy(sqlite, dataFolder, nowMs, version)
  sqlite.run('PRAGMA foreign_keys = OFF')
  try {
    sqlite
      .transaction(() => {
        for (const migration of state.missing) apply(sqlite, migration, nowMs)
      })
      .immediate()
  } finally {
    sqlite.run('PRAGMA foreign_keys = ON')
  }
  if (copy !== null) dropOtherCopies(copy)
}

/** Only `serve` migrates. Returns the number of migrations. */
export function requireCurrentSchema(sqlite: Database): number {
  const state = readSchemaState(sqlite)
  if (state.unknown.length > 0) throw newerSchema(sqlite, state.unknown)
  if (state.missing.length === 0) return state.applied.length
  if (state.applied.length === 0) {
    requireEmpty(sqlite)
    const { filename } = sqlite
    throw new ServiceError({ kind: 'no_database', dataFolder: dirname(filename) }, `${filename} is empty.`)
  }
  throw new ServiceError({ kind: 'schema_outdated' }, 'This database is from an older Tollgate.')
}

/** Also for databases opened by URI. */
const pathOf = (sqlite: Database): string =>
  sqlite.query<{ file: string }, []>("SELECT file FROM pragma_database_list WHERE name = 'main'").get()?.file ?? ''

/** Tables without our migrations. */
function requireEmpty(sqlite: Database): void {
  if (sqlite.query("SELECT 1 FROM sqlite_schema WHERE type = 'table'").get() === null) return
  const path = pathOf(sqlite)
  throw new ServiceError({ kind: 'database_unusable', path }, `${path} is not a Tollgate database.`)
}

export function newerSchema(sqlite: Database, migrations: string[]): ServiceError {
  const version = readVersion(sqlite)
  return new ServiceError(
    { kind: 'schema_newer', migrations, version },
    `This database was used by ${version === null ? 'a newer Tollgate' : `Tollgate ${version}, which is newer`} (unknown migrations: ${migrations.join(', ')}).`,
  )
}

function apply(sqlite: Database, migration: Migration, nowMs: number): void {
  for (const statement of migration.sql.split('--> statement-breakpoint')) sqlite.run(statement)
  const [broken] = sqlite.query<{ table: string }, []>('PRAGMA foreign_key_check').all()
  if (broken)
    throw new ServiceError(
      { kind: 'migration_failed', migration: migration.name, table: broken.table },
      `Migration ${migration.name} would break references of table ${broken.table}. Nothing was changed.`,
    )
  sqlite.query('INSERT INTO migrations (name, applied_ms) VALUES (?, ?)').run(migration.name, nowMs)
}
