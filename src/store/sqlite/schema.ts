/**
 * Every table of the one SQLite file. drizzle-kit turns this into `drizzle/`; migrations there are only
 * ever added. Times are integer milliseconds, money is integer nano-dollars, ids are UUIDv7 as 32 hex digits; those of prices and of
 * runs of the server ("instance") are shorter.
 * The ledger tables have no foreign keys: a row of money outlives the configuration that it names.
 */
import { sql } from 'drizzle-orm'
import { blob, index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type {
  Deadlines,
  DialectName,
  Feature,
  Modality,
  Origin,
  Period,
  UpstreamSettings,
} from '../../domain/settings.ts'
import type { Endpoint, Lane } from '../../domain/task.ts'
import type { PricingItem } from '../../domain/usage.ts'

const count = (name: string) => integer(name).notNull().default(0)
const flag = (name: string) => integer(name, { mode: 'boolean' })
const origin = () => text('origin').$type<Origin>().notNull()

// Configuration

export const upstreams = sqliteTable('upstreams', {
  id: text('id').primaryKey(),
  dialect: text('dialect').$type<DialectName>().notNull(),
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
  /** False where the catalogue hides it from lists of models: it can still be asked for. */
  listed: flag('listed').notNull().default(true),
  /** Whether it is one of those that a wildcard stands for. */
  fromWildcard: flag('from_wildcard').notNull().default(false),
  origin: origin(),
  createdMs: integer('created_ms').notNull(),
  updatedMs: integer('updated_ms').notNull(),
})

export const aliases = sqliteTable('aliases', {
  alias: text('alias').primaryKey(),
  model: text('model').notNull(),
  listed: flag('listed').notNull().default(true),
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
  scope: text('scope').$type<'all' | 'local'>().notNull().default('all'),
  /** Allow-list patterns; a team without any may use every model of its scope. */
  models: text('models', { mode: 'json' }).$type<string[]>().notNull().default([]),
  requestsPerMinute: integer('rpm'),
  tokensPerMinute: integer('tpm'),
  concurrency: integer('concurrency'),
  budgetNanoUsd: integer('budget_nano_usd'),
  budgetPeriod: text('budget_period').$type<Period>(),
  /** How many keys each of its members may have. */
  maxKeys: integer('max_keys').default(10),
  metadata: text('metadata', { mode: 'json' }).$type<Record<string, string>>().notNull(),
  createdMs: integer('created_ms').notNull(),
})

export const keys = sqliteTable(
  'keys',
  {
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
    /** Addresses and ranges; a key without any may be used from everywhere. */
    allowedIps: text('allowed_ips', { mode: 'json' }).$type<string[]>().notNull().default([]),
    metadata: text('metadata', { mode: 'json' }).$type<Record<string, string>>().notNull(),
    createdMs: integer('created_ms').notNull(),
    revokedMs: integer('revoked_ms'),
    /** Of the configuration, when this row or one of its secrets or patterns was written last: a server reads what is later. */
    revision: integer('revision').notNull().default(0),
  },
  (table) => [index('keys_revision').on(table.revision)],
)

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

/** The catalogue as it stood after each change that was applied to it; only the newest are kept. */
export const catalogVersions = sqliteTable('catalog_versions', {
  number: integer('number').primaryKey(),
  atMs: integer('at_ms').notNull(),
  actor: text('actor').notNull(),
  action: text('action').notNull(),
  subject: text('subject').notNull(),
  created: count('created'),
  updated: count('updated'),
  deleted: count('deleted'),
  adopted: count('adopted'),
  /** All rows of the catalogue's tables as JSON, by the names of `CatalogRows`, packed (zstd). */
  rows: blob('rows', { mode: 'buffer' }).notNull(),
})

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

// Ledger. Its tables are WITHOUT ROWID, which drizzle cannot say: the generated migration was given the words by
// hand (one B-tree instead of two: a third less WAL and CPU a row). A test keeps it so.

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
  estimated: count('estimated'),
  costNanoUsd: count('cost_nano_usd'),
  upstreamRequestId: text('upstream_request_id'),
})

const reserveColumns = () => ({
  createdMs: integer('created_ms').notNull(),
  reservedPromptTokens: count('reserved_prompt_tokens'),
  reservedCompletionTokens: count('reserved_completion_tokens'),
  reservedNanoUsd: count('reserved_nano_usd'),
})

/** The ledger: one row a request, its first call inline. Tokens and cost are the sums over its calls. */
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
    /**
     * Of a request that took several calls, as JSON, what the row says of the last one or of all of them: target and end of
     * the first (`domain/first-call.ts`). Its tokens and cost are what the sums have beyond `calls`.
     */
    firstCall: text('first_call'),
  },
  (table) => [index('requests_open').on(table.instance).where(sql`${table.status} = 'open'`)],
)

/** Each additional call of a request, from its second on; written before it is made. */
export const calls = sqliteTable(
  'calls',
  {
    requestId: text('request_id').notNull(),
    number: integer('number').notNull(),
    instance: text('instance').notNull(),
    /** Why it was made: `retry`, `fallback`, `limit`, `fan_out` or `schema`. */
    reason: text('reason').notNull(),
    ...targetColumns(),
    ...reserveColumns(),
    ...outcomeColumns(),
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
    /** Empty for a key without a team. */
    teamId: text('team_id').notNull().default(''),
    model: text('model').notNull(),
    upstream: text('upstream').notNull(),
    endpoint: text('endpoint').$type<Endpoint>().notNull().default('chat'),
    requests: count('requests'),
    /** Requests that ended `failed` or `abandoned`. */
    errors: count('errors'),
    cuts: count('cuts'),
    ...tokenColumns(),
    costNanoUsd: count('cost_nano_usd'),
    /** Part of `cost_nano_usd` that rests on estimated tokens. */
    estimatedCostNanoUsd: count('estimated_cost_nano_usd'),
    /** `{"<bucket>": count}`; bucket b holds times from 2^(b/2) ms up to 2^((b+1)/2) ms (`domain/histogram.ts`). */
    firstTokenHistogram: text('first_token_histogram').notNull().default('{}'),
    durationHistogram: text('duration_histogram').notNull().default('{}'),
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

/** When each key was last used. It outlives the requests that it is of. */
export const keyUses = sqliteTable('key_uses', {
  keyId: text('key_id').primaryKey(),
  lastUsedMs: integer('last_used_ms').notNull(),
  lastModel: text('last_model').notNull(),
})
