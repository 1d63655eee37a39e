/**
 * Ledger tables. WITHOUT ROWID was added to the generated migration manually, since drizzle lacks it; a test checks it (saves a third of WAL and CPU per row).
 * No foreign keys: cost records outlive the configuration.
 */
import { getTableColumns, sql } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { COUNTS, SUMMED_COUNTS } from '../../domain/call-counts.ts'
import { keysOf } from '../../domain/json.ts'
import type { Lane, RecordedEndpoint } from '../../domain/task.ts'
import type { CountSource } from '../../domain/units.ts'
import type { CallReason, ClosedCall, ClosedRow, OpenCall, OpenRow, StoredCall, StoredRequest } from '../ledger-rows.ts'
import { HAS_ERROR_SQL, toColumn } from '../reports/columns.ts'
import { count } from './schema.ts'

const countColumns = <Name extends string>(names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, count(toColumn(name))])) as Record<Name, ReturnType<typeof count>>

export const targetColumns = () => ({
  upstream: text('upstream').notNull(),
  upstreamModel: text('upstream_model').notNull(),
  lane: text('lane').$type<Lane>().notNull().default('translated'),
  priceId: text('price_id'),
})

/** The ledger's column lists follow from these groups. */
export const outcomeColumns = () => ({
  status: text('status').$type<'open' | 'ok' | 'failed' | 'cut' | 'abandoned'>().notNull(),
  httpStatus: integer('http_status'),
  errorCode: text('error_code'),
  durationMs: integer('duration_ms'),
  firstTokenMs: integer('first_token_ms'),
  ...countColumns(COUNTS),
  estimated: count('estimated'),
  countedBy: text('counted_by').$type<CountSource>(),
  mode: text('mode'),
  reportedNanoUsd: integer('reported_nano_usd'),
  unpriced: count('unpriced'),
  upstreamRequestId: text('upstream_request_id'),
  credential: integer('credential'),
})

const reserveColumns = () => ({
  createdMs: integer('created_ms').notNull(),
  ...reservedColumns(),
})

export const reservedColumns = () => ({
  reservedPromptTokens: count('reserved_prompt_tokens'),
  reservedCompletionTokens: count('reserved_completion_tokens'),
  reservedNanoUsd: count('reserved_nano_usd'),
})

/** Also stands for the request's only call; tokens and cost are totals. */
export const requests = sqliteTable(
  'requests',
  {
    id: text('id').primaryKey(),
    instance: text('instance').notNull(),
    keyId: text('key_id').notNull(),
    teamId: text('team_id'),
    model: text('model').notNull(),
    endpoint: text('endpoint').$type<RecordedEndpoint>().notNull().default('chat'),
    stream: count('stream'),
    user: text('user'),
    ...targetColumns(),
    ...reserveColumns(),
    ...outcomeColumns(),
    attempts: integer('attempts').notNull().default(1),
  },
  (table) => [
    index('requests_open').on(table.instance).where(sql`${table.status} = 'open'`),
    // Covers all filters of failures.
    index('requests_unwell')
      .on(table.createdMs, table.errorCode, table.status, table.keyId, table.teamId, table.model, table.upstream)
      .where(sql.raw(HAS_ERROR_SQL)),
  ],
)

/** Calls of requests with several, written before they start. The first call of an open request is written once it has ended. */
export const calls = sqliteTable(
  'calls',
  {
    requestId: text('request_id').notNull(),
    number: integer('number').notNull(),
    instance: text('instance').notNull(),
    reason: text('reason').$type<CallReason>().notNull(),
    ...targetColumns(),
    ...reserveColumns(),
    ...outcomeColumns(),
  },
  (table) => [
    primaryKey({ columns: [table.requestId, table.number] }),
    index('calls_open').on(table.instance).where(sql`${table.status} = 'open'`),
  ],
)

/** Compile-time check that rows and tables agree. */
type Holds<Row, Columns extends Row> = Columns
export type Checked = [
  Holds<StoredRequest, typeof requests.$inferSelect>,
  Holds<typeof requests.$inferSelect, StoredRequest>,
  Holds<StoredCall, typeof calls.$inferSelect>,
  Holds<typeof calls.$inferSelect, StoredCall>,
]

const sumColumns = () => ({
  requests: count('requests'),
  errors: count('errors'),
  cuts: count('cuts'),
  ...countColumns(SUMMED_COUNTS),
  unpriced: count('unpriced'),
  costNanoUsd: count('cost_nano_usd'),
  estimatedCostNanoUsd: count('estimated_cost_nano_usd'),
  /** See `store/histogram.ts`. */
  firstTokenHistogram: text('first_token_histogram').notNull().default('{}'),
  durationHistogram: text('duration_histogram').notNull().default('{}'),
})

export const usageHourly = sqliteTable(
  'usage_hourly',
  {
    hourMs: integer('hour_ms').notNull(),
    keyId: text('key_id').notNull(),
    /** '' for keys without a team. */
    teamId: text('team_id').notNull().default(''),
    model: text('model').notNull(),
    upstream: text('upstream').notNull(),
    endpoint: text('endpoint').$type<RecordedEndpoint>().notNull().default('chat'),
    ...sumColumns(),
  },
  (table) => [
    primaryKey({
      columns: [table.hourMs, table.keyId, table.teamId, table.model, table.upstream, table.endpoint],
    }),
    // Covers the cost: the spend of thousands of keys is read from the index.
    index('usage_hourly_key').on(table.keyId, table.hourMs, table.costNanoUsd),
    // Most keys have no team.
    index('usage_hourly_team').on(table.teamId, table.hourMs).where(sql`${table.teamId} <> ''`),
  ],
)

/** Totals by UTC day, for one dimension, and within one model or team. Enough for the most frequent reports. */
export const usageDaily = sqliteTable(
  'usage_daily',
  {
    /** `DAILY` (`../report-store.ts`), or a pair such as `key of model`. */
    dimension: text('dimension').notNull(),
    dayMs: integer('day_ms').notNull(),
    /** '' for no team. In pairs: `acme/large <key ID>`. */
    value: text('value').notNull(),
    ...sumColumns(),
  },
  (table) => [primaryKey({ columns: [table.dimension, table.dayMs, table.value] })],
)

/** Requests rejected before they had a row. At most a row per key, code, and hour. */
export const refusalsHourly = sqliteTable(
  'refusals_hourly',
  {
    hourMs: integer('hour_ms').notNull(),
    /** '' for requests without a known key. */
    keyId: text('key_id').notNull(),
    /** '' for keys without a team. */
    teamId: text('team_id').notNull(),
    code: text('code').notNull(),
    refused: count('refused'),
    lastMs: integer('last_ms').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.hourMs, table.keyId, table.teamId, table.code] }),
    // For the newest refusal of a key or team.
    index('refusals_hourly_key').on(table.keyId, table.lastMs, table.code),
    index('refusals_hourly_team').on(table.teamId, table.lastMs, table.code).where(sql`${table.teamId} <> ''`),
  ],
)

/** Last use of keys; stays when requests are removed. */
export const keyUses = sqliteTable('key_uses', {
  keyId: text('key_id').primaryKey(),
  lastUsedMs: integer('last_used_ms').notNull(),
  lastModel: text('last_model').notNull(),
})

/** In a cluster: changes that PostgreSQL doesn't have yet, or got recently. Written with the rows. Empty without a cluster. */
export const clusterOutbox = sqliteTable(
  'cluster_outbox',
  {
    seq: integer('seq').primaryKey({ autoIncrement: true }),
    /** Null for a count of rejected requests. */
    requestId: text('request_id'),
    /** JSON with hour, key, team, code, and `last_ms` at that time. */
    refusal: text('refusal'),
  },
  (table) => [index('cluster_outbox_request').on(table.requestId).where(sql`${table.requestId} IS NOT NULL`)],
)

/** Open requests are abandoned once the lease has expired. */
export const instances = sqliteTable('instances', {
  id: text('id').primaryKey(),
  /** Higher than all earlier ones. */
  epoch: integer('epoch').notNull().unique(),
  startedMs: integer('started_ms').notNull(),
  leaseEndsMs: integer('lease_ends_ms').notNull(),
})

type Value = string | number | null

const outcome = keysOf(outcomeColumns())
const ofRequests = ['attempts'] as const
const isOutcome: ReadonlySet<string> = new Set([...outcome, ...ofRequests])

export const OPEN = keysOf(getTableColumns(requests)).filter((field): field is keyof OpenRow => !isOutcome.has(field))
export const CLOSED: readonly (keyof ClosedRow)[] = [...OPEN, ...outcome, ...ofRequests]
export const RESERVED = keysOf(reservedColumns())
/** A fallback may have moved the request to another target. */
export const SETTLED = [...keysOf(targetColumns()), ...RESERVED, ...outcome, ...ofRequests] as const

export const OPEN_CALL = keysOf(getTableColumns(calls)).filter(
  (field): field is keyof OpenCall => !isOutcome.has(field),
)
export const CLOSED_CALL: readonly (keyof ClosedCall)[] = [...OPEN_CALL, ...outcome]
export const ENDED_CALL: readonly (keyof ClosedCall)[] = outcome

const names: Record<string, { name: string; default: unknown }> = {
  ...getTableColumns(calls),
  ...getTableColumns(requests),
}

export const column = (field: string): string => names[field]?.name ?? field
export const selection = (fields: readonly string[]) => fields.map((field) => `${column(field)} AS ${field}`).join(', ')
export const placeholders = (fields: readonly unknown[]) => fields.map(() => '?').join(', ')

export function insertion(
  table: 'requests' | 'calls',
  fields: readonly string[],
  status: 'open' | null = null,
  conflict = 'DO NOTHING',
): string {
  const [name, value] = status ? [', status', `, '${status}'`] : ['', '']
  const names = fields.map(column).join(', ')
  return `INSERT INTO ${table} (${names}${name}) VALUES (${placeholders(fields)}${value}) ON CONFLICT ${conflict}`
}

/** undefined becomes the column's default. */
export function values<T extends string>(
  row: { readonly [Field in T]?: Value | undefined },
  fields: readonly T[],
): Value[] {
  const out = new Array<Value>(fields.length)
  for (let i = 0; i < fields.length; i++) {
    const field = fields[i] as T
    const value = row[field]
    out[i] = value === undefined ? ((names[field]?.default ?? null) as Value) : value
  }
  return out
}
