/**
 * Tables, except those of the ledger (`ledger-schema.ts`). drizzle-kit generates `drizzle/` from both; migrations are only added. Times are in ms, money in
 * nano-dollars, IDs are UUIDv7 as 32 hex digits, or shorter for prices and runs of the server (`instance`).
 */
import { blob, index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { LimitName, Period } from '../../domain/limits.ts'
import type { Origin } from '../../domain/models.ts'
import type { Role, TokenScope } from '../../domain/roles.ts'
import type { PricingItem } from '../../domain/usage.ts'
import type { EntryOf, Kind } from '../catalog-layers.ts'
import type { Ceilings } from '../config-store.ts'

export const count = (name: string) => integer(name).notNull().default(0)
/** Common to keys and teams. */
const limits = () => ({
  ...({ rpm: integer('rpm'), tpm: integer('tpm'), concurrency: integer('concurrency') } satisfies Record<
    LimitName,
    object
  >),
  budgetNanoUsd: integer('budget_nano_usd'),
  budgetPeriod: text('budget_period').$type<Period>(),
})
const flag = (name: string) => integer(name, { mode: 'boolean' })

/** Catalog layers (`catalog-layers.ts`): at most one entry per kind, name, and layer. */
export const catalogEntries = sqliteTable(
  'catalog_entries',
  {
    kind: text('kind').$type<Kind>().notNull(),
    /** As in `NAMES`. */
    name: text('name').notNull(),
    origin: text('origin').$type<Origin>().notNull(),
    /** All fields, including the names. References such as `${OPENAI_API_KEY}` are resolved by the server; never a secret. */
    fields: text('fields', { mode: 'json' }).$type<EntryOf<Kind>>().notNull(),
  },
  (table) => [primaryKey({ columns: [table.kind, table.name, table.origin] })],
)

/** Stored credentials of an upstream, one or more. */
export const upstreamCredentials = sqliteTable(
  'upstream_credentials',
  {
    upstream: text('upstream').notNull(),
    /** From 1. */
    number: integer('number').notNull(),
    /** AES-GCM under the data folder's `secret`; '' = must be entered again. */
    sealed: text('sealed').notNull(),
  },
  (table) => [primaryKey({ columns: [table.upstream, table.number] })],
)

export const teams = sqliteTable('teams', {
  id: text('id').primaryKey(),
  name: text('name').notNull().unique(),
  scope: text('scope').$type<'all' | 'local'>().notNull().default('all'),
  /** Patterns; empty: all models of the scope. */
  models: text('models', { mode: 'json' }).$type<string[]>().notNull().default([]),
  ...limits(),
  /** Per member. */
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
    /** In `admins`: the user who created it for themselves. */
    ownerId: text('owner_id'),
    /** True for the key that meters its owner's playground: it has no secret and is never listed. */
    hidden: flag('hidden').notNull().default(false),
    expiresMs: integer('expires_ms'),
    ...limits(),
    /** Addresses and ranges; empty: any. */
    allowedIps: text('allowed_ips', { mode: 'json' }).$type<string[]>().notNull().default([]),
    /** Of a member's key: limits that its owner may not raise. */
    ceilings: text('ceilings', { mode: 'json' }).$type<Ceilings>().notNull().default({}),
    metadata: text('metadata', { mode: 'json' }).$type<Record<string, string>>().notNull(),
    createdMs: integer('created_ms').notNull(),
    revokedMs: integer('revoked_ms'),
    /** Configuration revision of the last write of this row, its secrets, or its patterns: servers read what is newer. */
    revision: integer('revision').notNull().default(0),
  },
  (table) => [index('keys_revision').on(table.revision)],
)

/** Several only during the overlap of a rotation. */
export const keySecrets = sqliteTable(
  'key_secrets',
  {
    /** SHA-256 of the whole secret, 64 lowercase hex digits. */
    hash: text('hash').primaryKey(),
    keyId: text('key_id')
      .notNull()
      .references(() => keys.id),
    lastFour: text('last_four').notNull(),
    createdMs: integer('created_ms').notNull(),
    /** End of a rotation's overlap. */
    expiresMs: integer('expires_ms'),
  },
  (table) => [index('key_secrets_key').on(table.keyId)],
)

/** Patterns; none: all models of the scope. */
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

/** All prices ever charged: never changed, since ledger rows refer to them. */
export const prices = sqliteTable(
  'prices',
  {
    id: text('id').primaryKey(),
    model: text('model').notNull(),
    /** Set for the price of one route. */
    upstream: text('upstream'),
    pricing: text('pricing', { mode: 'json' }).$type<PricingItem[]>().notNull(),
    createdMs: integer('created_ms').notNull(),
  },
  (table) => [index('prices_model').on(table.model)],
)

/** The catalog after each change; only the newest are kept. */
export const catalogVersions = sqliteTable('catalog_versions', {
  number: integer('number').primaryKey(),
  atMs: integer('at_ms').notNull(),
  actor: text('actor').notNull(),
  action: text('action').notNull(),
  subject: text('subject').notNull(),
  created: count('created'),
  updated: count('updated'),
  deleted: count('deleted'),
  /** All layer entries as JSON, zstd-compressed. */
  packed: blob('rows', { mode: 'buffer' }).notNull(),
})

export const settings = sqliteTable('settings', {
  key: text('key').primaryKey(),
  value: text('value').notNull(),
  updatedMs: integer('updated_ms').notNull(),
})

export const audit = sqliteTable('audit', {
  id: text('id').primaryKey(),
  atMs: integer('at_ms').notNull(),
  /** `cli`, `file`, `server`, `setup`, `oidc` (identity provider), or the ID of a user or token. */
  actor: text('actor').notNull(),
  /** `keys.create`, `catalog.apply`, … */
  action: text('action').notNull(),
  subject: text('subject').notNull(),
  detail: text('detail', { mode: 'json' }).$type<Record<string, unknown>>().notNull(),
})

export const migrations = sqliteTable('migrations', {
  name: text('name').primaryKey(),
  appliedMs: integer('applied_ms').notNull(),
})

export const admins = sqliteTable('admins', {
  id: text('id').primaryKey(),
  /** Sign-in name, compared without case. */
  name: text('name').notNull().unique(),
  role: text('role').$type<Role>().notNull(),
  /** Of a member: the team of their keys. */
  teamId: text('team_id').references(() => teams.id),
  /** argon2id as a PHC string; null if not set. */
  passwordHash: text('password_hash'),
  /** Issuer and subject of OpenID Connect, separated by a space. */
  oidcSubject: text('oidc_subject').unique(),
  /** SHA-256 of a one-time code to set a password. */
  codeHash: text('code_hash'),
  codeExpiresMs: integer('code_expires_ms'),
  createdMs: integer('created_ms').notNull(),
  disabledMs: integer('disabled_ms'),
})

export const adminSessions = sqliteTable(
  'admin_sessions',
  {
    id: text('id').primaryKey(),
    adminId: text('admin_id')
      .notNull()
      .references(() => admins.id),
    /** SHA-256 of the cookie. */
    hash: text('hash').notNull().unique(),
    /** Shown to the owner in the list of sessions. */
    address: text('address').notNull(),
    agent: text('agent').notNull(),
    createdMs: integer('created_ms').notNull(),
    /** Last use, to the minute. */
    seenMs: integer('seen_ms').notNull(),
  },
  (table) => [index('admin_sessions_admin').on(table.adminId)],
)

export const adminPasskeys = sqliteTable(
  'admin_passkeys',
  {
    id: text('id').primaryKey(),
    adminId: text('admin_id')
      .notNull()
      .references(() => admins.id),
    name: text('name').notNull(),
    /** The authenticator's ID, base64url. */
    credentialId: text('credential_id').notNull().unique(),
    /** COSE (RFC 9052), base64url. */
    publicKey: text('public_key').notNull(),
    /** The authenticator's use counter; 0 = it keeps none. */
    counter: integer('counter').notNull(),
    /** How browsers reach the authenticator, such as `internal`. */
    transports: text('transports', { mode: 'json' }).$type<readonly string[]>().notNull(),
    /** Host name for which browsers use it. */
    rpId: text('rp_id').notNull(),
    createdMs: integer('created_ms').notNull(),
    usedMs: integer('used_ms'),
  },
  (table) => [index('admin_passkeys_admin').on(table.adminId)],
)

export const adminTokens = sqliteTable('admin_tokens', {
  id: text('id').primaryKey(),
  name: text('name').notNull(),
  scope: text('scope').$type<TokenScope>().notNull(),
  /** SHA-256 of the whole token, 64 lowercase hex digits. */
  hash: text('hash').notNull().unique(),
  lastFour: text('last_four').notNull(),
  createdMs: integer('created_ms').notNull(),
  expiresMs: integer('expires_ms'),
  revokedMs: integer('revoked_ms'),
})
