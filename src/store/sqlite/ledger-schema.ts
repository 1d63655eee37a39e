/**
 * The tables of the ledger, and their columns as statements want them. They are WITHOUT ROWID, which drizzle cannot say: the generated
 * migration was given the words by hand (one B-tree instead of two: a third less WAL and CPU a row); a test keeps it so. They have no
 * foreign keys: a row of money outlives the configuration that it names.
 */
import { getTableColumns, sql } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { LATEST_MS, toFirstId } from '../../domain/id.ts'
import { keysOf } from '../../domain/json.ts'
import type { Endpoint, Lane } from '../../domain/task.ts'
import type { CallReason, ClosedCall, ClosedRow, OpenCall, OpenRow, StoredCall, StoredRequest } from '../ledger-rows.ts'
import { count } from './schema.ts'

/** What is counted of a call, and charged. */
export const tokenColumns = () => ({
  promptTokens: count('prompt_tokens'),
  cachedTokens: count('cached_tokens'),
  cacheWriteTokens: count('cache_write_tokens'),
  /** Those of them that were to be kept for an hour. */
  cacheWrite1hTokens: count('cache_write_1h_tokens'),
  completionTokens: count('completion_tokens'),
  reasoningTokens: count('reasoning_tokens'),
  audioPromptTokens: count('audio_prompt_tokens'),
  audioCompletionTokens: count('audio_completion_tokens'),
  /** Of images, in the prompt and in the answer. */
  imageTokens: count('image_tokens'),
  /** Those of them that are in the answer. */
  imageCompletionTokens: count('image_completion_tokens'),
  /** Of the prompt, what tools of the provider read into it. */
  toolPromptTokens: count('tool_prompt_tokens'),
  /** Of the web, by the provider: a fee each. */
  webSearches: count('web_searches'),
})

/** Where a call goes. Of a request it is the last call that was made. */
export const targetColumns = () => ({
  upstream: text('upstream').notNull(),
  upstreamModel: text('upstream_model').notNull(),
  /** `native`: the upstream's bytes were passed on; `translated`: read as events and written anew. */
  lane: text('lane').$type<Lane>().notNull().default('translated'),
  priceId: text('price_id'),
})

/** How a call, or a request, ended. The ledger's lists of columns follow from these groups: a column stands here alone. */
export const outcomeColumns = () => ({
  status: text('status').$type<'open' | 'ok' | 'failed' | 'cut' | 'abandoned'>().notNull(),
  httpStatus: integer('http_status'),
  errorCode: text('error_code'),
  durationMs: integer('duration_ms'),
  firstTokenMs: integer('first_token_ms'),
  ...tokenColumns(),
  /** How long a server was at work on it, where that has a price: see `accounting/bill.ts`. */
  computeMs: count('compute_ms'),
  estimated: count('estimated'),
  costNanoUsd: count('cost_nano_usd'),
  /** How the upstream said that it served it, such as `flex`; null for as most are. Of a request it is that of its last call. */
  mode: text('mode'),
  /** What the upstream charged by its own word, where that is what counts: then it is the cost. */
  reportedNanoUsd: integer('reported_nano_usd'),
  /** 1 where something has no price that was counted, or the mode has none: the cost may not be what it was. */
  unpriced: count('unpriced'),
  upstreamRequestId: text('upstream_request_id'),
  /** By which of its upstream's credentials it went, from 1 on; null where that has one or none. Of a request it is that of its last call. */
  credential: integer('credential'),
})

const reserveColumns = () => ({
  createdMs: integer('created_ms').notNull(),
  ...reservedColumns(),
})

/** What a call holds until it has ended. */
export const reservedColumns = () => ({
  reservedPromptTokens: count('reserved_prompt_tokens'),
  reservedCompletionTokens: count('reserved_completion_tokens'),
  reservedNanoUsd: count('reserved_nano_usd'),
})

/**
 * Of requests that did not end well. An index has only those: a query uses it that says the same, letter by letter. A list of three
 * would be a table of its own to SQLite, made anew for every row that is written: 2 µs each.
 */
export const UNWELL_SQL = `status <> 'ok' AND status <> 'open'`

/** The ledger: a row for each request. Of most it is that of their only call, too; tokens and cost are the sums over all. */
export const requests = sqliteTable(
  'requests',
  {
    id: text('id').primaryKey(),
    instance: text('instance').notNull(),
    keyId: text('key_id').notNull(),
    /** The team that the key had when the request was admitted: what it costs stays that team's. */
    teamId: text('team_id'),
    model: text('model').notNull(),
    endpoint: text('endpoint').$type<Endpoint>().notNull().default('chat'),
    stream: count('stream'),
    user: text('user'),
    ...targetColumns(),
    ...reserveColumns(),
    ...outcomeColumns(),
    attempts: integer('attempts').notNull().default(1),
  },
  (table) => [
    index('requests_open').on(table.instance).where(sql`${table.status} = 'open'`),
    // With all that failures are told apart and filtered by, so that they are counted from it alone.
    index('requests_unwell')
      .on(table.createdMs, table.errorCode, table.status, table.keyId, table.teamId, table.model, table.upstream)
      .where(sql.raw(UNWELL_SQL)),
  ],
)

/**
 * Each call of a request that took several, the first one too; written before it is made. Of a request under way the first one has a
 * row only once it has ended: what it holds stands in the request's.
 */
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

/** The rows that a store is asked for say what these tables have, no more and no less: else this does not compile. */
type Holds<Row, Columns extends Row> = Columns
export type Checked = [
  Holds<StoredRequest, typeof requests.$inferSelect>,
  Holds<typeof requests.$inferSelect, StoredRequest>,
  Holds<StoredCall, typeof calls.$inferSelect>,
  Holds<typeof calls.$inferSelect, StoredCall>,
]

/** What settled requests come to. */
const sumColumns = () => ({
  requests: count('requests'),
  /** Requests that ended `failed` or `abandoned`. */
  errors: count('errors'),
  cuts: count('cuts'),
  ...tokenColumns(),
  /** Requests of which something has no price. */
  unpriced: count('unpriced'),
  costNanoUsd: count('cost_nano_usd'),
  /** Part of `cost_nano_usd` that rests on estimated tokens. */
  estimatedCostNanoUsd: count('estimated_cost_nano_usd'),
  /** `{"<bucket>": count}`; bucket b holds times from 2^(b/2) ms up to 2^((b+1)/2) ms (`store/histogram.ts`). */
  firstTokenHistogram: text('first_token_histogram').notNull().default('{}'),
  durationHistogram: text('duration_histogram').notNull().default('{}'),
})

/** Sums of settled requests, by the UTC hour in which each was created. */
export const usageHourly = sqliteTable(
  'usage_hourly',
  {
    hourMs: integer('hour_ms').notNull(),
    keyId: text('key_id').notNull(),
    /** Empty for a key without a team. */
    teamId: text('team_id').notNull().default(''),
    model: text('model').notNull(),
    upstream: text('upstream').notNull(),
    endpoint: text('endpoint').$type<Endpoint>().notNull().default('chat'),
    ...sumColumns(),
  },
  (table) => [
    primaryKey({
      columns: [table.hourMs, table.keyId, table.teamId, table.model, table.upstream, table.endpoint],
    }),
    // With the cost, so that what thousands of keys have spent is read from it alone.
    index('usage_hourly_key').on(table.keyId, table.hourMs, table.costNanoUsd),
    // Most keys have no team: a third of the table's indexes would be of those.
    index('usage_hourly_team').on(table.teamId, table.hourMs).where(sql`${table.teamId} <> ''`),
  ],
)

/**
 * The same by the UTC day, of one thing at a time: of each key, each team, each model …, and of each key, each team and each upstream within
 * one model, or one team. It is short where an hour has a row for every key with every model on every upstream, and what people look at most
 * is read from it alone.
 */
export const usageDaily = sqliteTable(
  'usage_daily',
  {
    /** One of `DAILY` (`../report-store.ts`), or of those `WITHIN` another, such as `key of model`. */
    dimension: text('dimension').notNull(),
    dayMs: integer('day_ms').notNull(),
    /** Which one of those the row is of: empty for a key without a team. Within another one, that comes first: `acme/large <id of key>`. */
    value: text('value').notNull(),
    ...sumColumns(),
  },
  (table) => [primaryKey({ columns: [table.dimension, table.dayMs, table.value] })],
)

/** When each key was last used. It outlives the requests that it is of. */
export const keyUses = sqliteTable('key_uses', {
  keyId: text('key_id').primaryKey(),
  lastUsedMs: integer('last_used_ms').notNull(),
  lastModel: text('last_model').notNull(),
})

/** Runs of servers: what one has open is given up once its lease has ended. */
export const instances = sqliteTable('instances', {
  id: text('id').primaryKey(),
  /** Later than that of every run before it. */
  epoch: integer('epoch').notNull().unique(),
  startedMs: integer('started_ms').notNull(),
  leaseEndsMs: integer('lease_ends_ms').notNull(),
})

type Value = string | number | null

const outcome = keysOf(outcomeColumns())
/** What the end of a request has beside that of a call. */
const ofRequests = ['attempts'] as const
const isOutcome: ReadonlySet<string> = new Set([...outcome, ...ofRequests])

/** What stands in the row of a request when it is opened, and once it is closed. */
export const OPEN = keysOf(getTableColumns(requests)).filter((field): field is keyof OpenRow => !isOutcome.has(field))
export const CLOSED: readonly (keyof ClosedRow)[] = [...OPEN, ...outcome, ...ofRequests]
/** What a call holds, which only grows. */
export const RESERVED = keysOf(reservedColumns())
/** What an outcome changes: a fallback may have moved the request to another target than the one it was opened for. */
export const SETTLED = [...keysOf(targetColumns()), ...RESERVED, ...outcome, ...ofRequests] as const

export const OPEN_CALL = keysOf(getTableColumns(calls)).filter(
  (field): field is keyof OpenCall => !isOutcome.has(field),
)
export const CLOSED_CALL: readonly (keyof ClosedCall)[] = [...OPEN_CALL, ...outcome]
/** How a call ended. */
export const ENDED_CALL: readonly (keyof ClosedCall)[] = outcome

/** What the rollup sums, and what a request has in common with its calls. */
export const SUMMED_COUNTS = keysOf(tokenColumns())
export const SUMMED = [...SUMMED_COUNTS, 'costNanoUsd'] as const

const names: Record<string, { name: string; default: unknown }> = {
  ...getTableColumns(calls),
  ...getTableColumns(requests),
}

/** The column of a field. */
export const column = (field: string): string => names[field]?.name ?? field
/** A list of columns that gives a row by its fields. */
export const selection = (fields: readonly string[]) => fields.map((field) => `${column(field)} AS ${field}`).join(', ')
export const placeholders = (fields: readonly unknown[]) => fields.map(() => '?').join(', ')

/** Adds a row where there is none yet. */
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

/** A row's values, in the order of a list of its fields. What an older version did not write has the column's default. */
export function values<T extends string>(row: Record<T, Value>, fields: readonly T[]): Value[] {
  const out = new Array<Value>(fields.length)
  for (let i = 0; i < fields.length; i++) {
    const field = fields[i] as T
    const value = row[field]
    out[i] = value === undefined ? ((names[field]?.default ?? null) as Value) : value
  }
  return out
}

/**
 * The time in an id is `created_ms`. An id minted among thousands in one millisecond runs a little ahead: a range of ids is made
 * wider by this than the span of time that is meant, and `created_ms` decides.
 */
export const SLACK_MS = 60_000

/** Sorts after every id. */
export const AFTER_ALL = 'g'

/** An id that sorts after all of before this time. */
export const toIdAfter = (ms: number) => (ms > LATEST_MS ? AFTER_ALL : toFirstId(ms))
