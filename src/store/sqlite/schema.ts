/**
 * Tables; the ledger's are in `ledger-schema.ts`. drizzle-kit generates `drizzle/`, where migrations are only added. ms, nano-dollars, and UUIDv7 as 32
 * hex digits (shorter for prices and instances). Contracts describe the columns.
 */
import { blob, index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { LimitName, Period } from '../../domain/limits.ts'
import type { Origin } from '../../domain/models.ts'
import type { Role, TokenScope } from '../../domain/roles.ts'
import type { PricingItem } from '../../domain/usage.ts'
import type { EntryOf, Kind } from '../catalog-layers.ts'
import type { Ceilings } from '../config-store.ts'

export const count = (name: string) => integer(name).notNull().default(0)
const limits = () => ({
  ...({ rpm: integer('rpm'), tpm: integer('tpm'), concurrency: integer('concurrency') } satisfies Record<
    LimitName,
    object
  >),
  budgetNanoUsd: integer('budget_nano_usd'),
  budgetPeriod: text('budget_period').$type<Period>(),
})
const flag = (name: string) => integer(name, { mode: 'boolean' })

export const catalogEntries = sqliteTable(
  'catalog_entries',
  {
    kind: text('kind').$type<Kind>().notNull(),
    name: text('name').notNull(),
    origin: text('origin').$type<Origin>().notNull(),
    /** May contain references such as `${OPENAI_API_KEY}`; never a secret. */
    fields: text('fields', { mode: 'json' }).$type<EntryOf<Kind>>().notNull(),
  },
  (table) => [primaryKey({ columns: [table.kind, table.name, table.origin] })],
)

export const upstreamCredentials = sqliteTable(
  'upstream_credentials',
  {
    upstream: text('upstream').notNull(),
    number: integer('number').notNull(),
    /** AES-GCM; '' = must be entered again. */
    sealed: text('sealed').notNull(),
  },
  (table) => [primaryKey({ columns: [table.upstream, table.number] })],
)

export const teams = sqliteTable('teams', {
  id: text('id').primaryKey(),
  name: text('name').notNull().unique(),
  scope: text('scope').$type<'all' | 'local'>().notNull().default('all'),
  models: text('models', { mode: 'json' }).$type<string[]>().notNull().default([]),
  ...limits(),
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
    ownerId: text('owner_id'),
    hidden: flag('hidden').notNull().default(false),
    expiresMs: integer('expires_ms'),
    ...limits(),
    allowedIps: text('allowed_ips', { mode: 'json' }).$type<string[]>().notNull().default([]),
    ceilings: text('ceilings', { mode: 'json' }).$type<Ceilings>().notNull().default({}),
    metadata: text('metadata', { mode: 'json' }).$type<Record<string, string>>().notNull(),
    createdMs: integer('created_ms').notNull(),
    revokedMs: integer('revoked_ms'),
    /** Revision of the last write of this row, its secrets, or its patterns. Servers read newer rows. */
    revision: integer('revision').notNull().default(0),
  },
  (table) => [index('keys_revision').on(table.revision)],
)

/** Several only during a rotation. */
export const keySecrets = sqliteTable(
  'key_secrets',
  {
    hash: text('hash').primaryKey(),
    keyId: text('key_id')
      .notNull()
      .references(() => keys.id),
    lastFour: text('last_four').notNull(),
    createdMs: integer('created_ms').notNull(),
    expiresMs: integer('expires_ms'),
  },
  (table) => [index('key_secrets_key').on(table.keyId)],
)

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

/** Never changed: ledger rows refer to them. */
export const prices = sqliteTable(
  'prices',
  {
    id: text('id').primaryKey(),
    model: text('model').notNull(),
    upstream: text('upstream'),
    pricing: text('pricing', { mode: 'json' }).$type<PricingItem[]>().notNull(),
    createdMs: integer('created_ms').notNull(),
  },
  (table) => [index('prices_model').on(table.model)],
)

/** Only the newest are kept. */
export const catalogVersions = sqliteTable('catalog_versions', {
  number: integer('number').primaryKey(),
  atMs: integer('at_ms').notNull(),
  actor: text('actor').notNull(),
  action: text('action').notNull(),
  subject: text('subject').notNull(),
  created: count('created'),
  updated: count('updated'),
  deleted: count('deleted'),
  /** Layer entries as JSON, zstd-compressed. */
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
  /** `cli`, `file`, `server`, `setup`, `oidc`, or the ID of a user or token. */
  actor: text('actor').notNull(),
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
  name: text('name').notNull().unique(),
  role: text('role').$type<Role>().notNull(),
  teamId: text('team_id').references(() => teams.id),
  passwordHash: text('password_hash'),
  oidcSubject: text('oidc_subject').unique(),
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
    hash: text('hash').notNull().unique(),
    address: text('address').notNull(),
    agent: text('agent').notNull(),
    createdMs: integer('created_ms').notNull(),
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
    credentialId: text('credential_id').notNull().unique(),
    publicKey: text('public_key').notNull(),
    counter: integer('counter').notNull(),
    transports: text('transports', { mode: 'json' }).$type<readonly string[]>().notNull(),
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
  hash: text('hash').notNull().unique(),
  lastFour: text('last_four').notNull(),
  createdMs: integer('created_ms').notNull(),
  expiresMs: integer('expires_ms'),
  revokedMs: integer('revoked_ms'),
})
