/**
 * Every table of the one SQLite file (design 5). drizzle-kit turns this into `drizzle/`; migrations there are only
 * ever added. Times are integer milliseconds, money is integer nano-dollars, ids are UUIDv7 as 32 hex digits.
 * The ledger tables have no foreign keys: a row of money outlives the configuration that it names.
 */
import { sql } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, sqliteView, text } from 'drizzle-orm/sqlite-core'
import type { Feature, Modality } from '../../domain/model.ts'
import type { Deadlines, Origin, Period, UpstreamSettings } from '../../domain/settings.ts'
import type { PricingItem } from '../../domain/usage.ts'

const count = (name: string) => integer(name).notNull().default(0)
const flag = (name: string) => integer(name, { mode: 'boolean' })
const origin = () => text('origin').$type<Origin>().notNull()

// Configuration

export const upstreams = sqliteTable('upstreams', {
  id: text('id').primaryKey(),
  dialect: text('dialect').notNull(),
  baseUrl: text('base_url'),
  /** A reference such as `${OPENAI_API_KEY}`, resolved by the server. Never a secret itself. */
  apiKeyRef: text('api_key_ref'),
  /** A credential that an administrator typed in: AES-GCM under the data folder's `secret`. */
  apiKeySealed: text('api_key_sealed'),
  local: flag('local').notNull().default(false),
  enabled: flag('enabled').notNull().default(true),
  deadlines: text('deadlines', { mode: 'json' }).$type<Partial<Deadlines>>().notNull(),
  options: text('options', { mode: 'json' }).$type<UpstreamSettings>().notNull(),
  origin: origin(),
  createdMs: integer('created_ms').notNull(),
  updatedMs: integer('updated_ms').notNull(),
})

export const models = sqliteTable('models', {
  slug: text('slug').primaryKey(),
  name: text('name').notNull(),
  ownedBy: text('owned_by').notNull(),
  contextLength: integer('context_length').notNull(),
  maxOutputLength: integer('max_output_length').notNull(),
  inputModalities: text('input_modalities', { mode: 'json' }).$type<Modality[]>().notNull(),
  outputModalities: text('output_modalities', { mode: 'json' }).$type<Modality[]>().notNull(),
  supportedFeatures: text('supported_features', { mode: 'json' }).$type<Feature[]>().notNull(),
  pricing: text('pricing', { mode: 'json' }).$type<PricingItem[]>().notNull(),
  priceId: text('price_id'),
  enabled: flag('enabled').notNull().default(true),
  /** False for one that a wildcard stands for: it can be asked for, and no list shows it. */
  listed: flag('listed').notNull().default(true),
  origin: origin(),
  createdMs: integer('created_ms').notNull(),
  updatedMs: integer('updated_ms').notNull(),
})

export const aliases = sqliteTable('aliases', {
  alias: text('alias').primaryKey(),
  model: text('model').notNull(),
  origin: origin(),
})

export const routes = sqliteTable(
  'routes',
  {
    model: text('model')
      .notNull()
      .references(() => models.slug, { onDelete: 'cascade' }),
    upstream: text('upstream')
      .notNull()
      .references(() => upstreams.id, { onDelete: 'cascade' }),
    upstreamModel: text('upstream_model').notNull(),
    priority: integer('priority').notNull().default(0),
    weight: integer('weight').notNull().default(1),
    /** Set where this route costs something else than its model. */
    pricing: text('pricing', { mode: 'json' }).$type<PricingItem[]>(),
    priceId: text('price_id'),
    /** Set where this route can do less than its model says. */
    contextLength: integer('context_length'),
    maxOutputLength: integer('max_output_length'),
    supportedFeatures: text('supported_features', { mode: 'json' }).$type<Feature[]>(),
    enabled: flag('enabled').notNull().default(true),
    origin: origin(),
  },
  (table) => [primaryKey({ columns: [table.model, table.upstream, table.upstreamModel] })],
)

export const teams = sqliteTable('teams', {
  id: text('id').primaryKey(),
  name: text('name').notNull().unique(),
  budgetNanoUsd: integer('budget_nano_usd'),
  budgetPeriod: text('budget_period').$type<Period>(),
  metadata: text('metadata', { mode: 'json' }).$type<Record<string, string>>().notNull(),
  createdMs: integer('created_ms').notNull(),
})

export const keys = sqliteTable('keys', {
  id: text('id').primaryKey(),
  name: text('name').notNull(),
  scope: text('scope').$type<'all' | 'local'>().notNull().default('all'),
  teamId: text('team_id').references(() => teams.id),
  expiresMs: integer('expires_ms'),
  requestsPerMinute: integer('rpm'),
  tokensPerMinute: integer('tpm'),
  concurrency: integer('concurrency'),
  budgetNanoUsd: integer('budget_nano_usd'),
  budgetPeriod: text('budget_period').$type<Period>(),
  metadata: text('metadata', { mode: 'json' }).$type<Record<string, string>>().notNull(),
  createdMs: integer('created_ms').notNull(),
  revokedMs: integer('revoked_ms'),
})

/** The secrets of a key, one at a time but for the overlap of a rotation. */
export const keySecrets = sqliteTable(
  'key_secrets',
  {
    /** SHA-256 of the whole secret, 64 lower-case hex digits. */
    hash: text('hash').primaryKey(),
    keyId: text('key_id')
      .notNull()
      .references(() => keys.id),
    lastFour: text('last_four').notNull(),
    createdMs: integer('created_ms').notNull(),
    /** The end of a rotation's overlap. */
    expiresMs: integer('expires_ms'),
  },
  (table) => [index('key_secrets_key').on(table.keyId)],
)

/** Allow-list patterns; a key without any may use every model of its scope. */
export const keyModels = sqliteTable(
  'key_models',
  {
    keyId: text('key_id')
      .notNull()
      .references(() => keys.id),
    pattern: text('pattern').notNull(),
  },
  (table) => [primaryKey({ columns: [table.keyId, table.pattern] })],
)

/** What was charged, ever: rows are added and never changed, and a ledger row names the one it was charged by. */
export const prices = sqliteTable(
  'prices',
  {
    id: text('id').primaryKey(),
    model: text('model').notNull(),
    /** Set for a price that belongs to one route. */
    upstream: text('upstream'),
    pricing: text('pricing', { mode: 'json' }).$type<PricingItem[]>().notNull(),
    createdMs: integer('created_ms').notNull(),
  },
  (table) => [index('prices_model').on(table.model)],
)

export const settings = sqliteTable('settings', {
  key: text('key').primaryKey(),
  value: text('value').notNull(),
  updatedMs: integer('updated_ms').notNull(),
})

export const audit = sqliteTable('audit', {
  id: text('id').primaryKey(),
  atMs: integer('at_ms').notNull(),
  /** Who: `cli`, `file`, `server`, or an administrator's id. */
  actor: text('actor').notNull(),
  /** What: `keys.create`, `catalog.apply`, … */
  action: text('action').notNull(),
  subject: text('subject').notNull(),
  detail: text('detail', { mode: 'json' }).$type<Record<string, unknown>>().notNull(),
})

export const migrations = sqliteTable('migrations', {
  name: text('name').primaryKey(),
  appliedMs: integer('applied_ms').notNull(),
})

// Ledger. Its three tables are WITHOUT ROWID, which drizzle cannot say: the generated migration was given the words by
// hand (one B-tree instead of two: a third less WAL and CPU a row). A test keeps it so.

const tokens = () => ({
  promptTokens: count('prompt_tokens'),
  cachedTokens: count('cached_tokens'),
  cacheWriteTokens: count('cache_write_tokens'),
  completionTokens: count('completion_tokens'),
  reasoningTokens: count('reasoning_tokens'),
})

const outcome = () => ({
  upstream: text('upstream').notNull(),
  upstreamModel: text('upstream_model').notNull(),
  status: text('status').$type<'open' | 'ok' | 'failed' | 'cut' | 'abandoned'>().notNull(),
  httpStatus: integer('http_status'),
  errorCode: text('error_code'),
  createdMs: integer('created_ms').notNull(),
  durationMs: integer('duration_ms'),
  firstTokenMs: integer('first_token_ms'),
  ...tokens(),
  estimated: count('estimated'),
  reservedPromptTokens: count('reserved_prompt_tokens'),
  reservedCompletionTokens: count('reserved_completion_tokens'),
  reservedNanoUsd: count('reserved_nano_usd'),
  costNanoUsd: count('cost_nano_usd'),
  priceId: text('price_id'),
  upstreamRequestId: text('upstream_request_id'),
})

/** The ledger: one row a request, its first call inline. Tokens and cost are the sums over its calls. */
export const requests = sqliteTable(
  'requests',
  {
    id: text('id').primaryKey(),
    instance: text('instance').notNull(),
    keyId: text('key_id').notNull(),
    model: text('model').notNull(),
    ...outcome(),
    stream: count('stream'),
    attempts: integer('attempts').notNull().default(1),
    user: text('user'),
  },
  (table) => [index('requests_open').on(table.instance).where(sql`${table.status} = 'open'`)],
)

/** Each further dispatch of a request, from its second on; written before it is made. */
export const calls = sqliteTable(
  'calls',
  {
    requestId: text('request_id').notNull(),
    number: integer('number').notNull(),
    instance: text('instance').notNull(),
    /** Why it was made: `retry`, `fallback`, `limit`, `fan_out` or `schema`. */
    reason: text('reason').notNull(),
    ...outcome(),
  },
  (table) => [
    primaryKey({ columns: [table.requestId, table.number] }),
    index('calls_open').on(table.instance).where(sql`${table.status} = 'open'`),
  ],
)

/** Sums of settled requests, by the UTC hour in which each was created. */
export const usageHourly = sqliteTable(
  'usage_hourly',
  {
    hourMs: integer('hour_ms').notNull(),
    keyId: text('key_id').notNull(),
    model: text('model').notNull(),
    upstream: text('upstream').notNull(),
    requests: count('requests'),
    /** Requests that ended `failed` or `abandoned`. */
    errors: count('errors'),
    cuts: count('cuts'),
    ...tokens(),
    costNanoUsd: count('cost_nano_usd'),
    /** Part of `cost_nano_usd` that rests on estimated tokens. */
    estimatedCostNanoUsd: count('estimated_cost_nano_usd'),
    /** `{"<bucket>": count}`; bucket b holds times from 2^(b/2) ms up to 2^((b+1)/2) ms (see ledger/histogram.ts). */
    firstTokenHistogram: text('first_token_histogram').notNull().default('{}'),
    durationHistogram: text('duration_histogram').notNull().default('{}'),
  },
  (table) => [
    primaryKey({
      columns: [table.hourMs, table.keyId, table.model, table.upstream],
    }),
    index('usage_hourly_key').on(table.keyId, table.hourMs),
  ],
)

export const usageDaily = sqliteView('usage_daily', {
  dayMs: integer('day_ms').notNull(),
  keyId: text('key_id').notNull(),
  model: text('model').notNull(),
  upstream: text('upstream').notNull(),
  requests: integer('requests').notNull(),
  errors: integer('errors').notNull(),
  cuts: integer('cuts').notNull(),
  promptTokens: integer('prompt_tokens').notNull(),
  cachedTokens: integer('cached_tokens').notNull(),
  cacheWriteTokens: integer('cache_write_tokens').notNull(),
  completionTokens: integer('completion_tokens').notNull(),
  reasoningTokens: integer('reasoning_tokens').notNull(),
  costNanoUsd: integer('cost_nano_usd').notNull(),
  estimatedCostNanoUsd: integer('estimated_cost_nano_usd').notNull(),
}).as(sql`
  SELECT hour_ms - hour_ms % 86400000 AS day_ms, key_id, model, upstream,
    SUM(requests) AS requests, SUM(errors) AS errors, SUM(cuts) AS cuts,
    SUM(prompt_tokens) AS prompt_tokens, SUM(cached_tokens) AS cached_tokens,
    SUM(cache_write_tokens) AS cache_write_tokens, SUM(completion_tokens) AS completion_tokens,
    SUM(reasoning_tokens) AS reasoning_tokens, SUM(cost_nano_usd) AS cost_nano_usd,
    SUM(estimated_cost_nano_usd) AS estimated_cost_nano_usd
  FROM usage_hourly GROUP BY 1, 2, 3, 4`)
