/**
 * The tables of the one SQLite file; those of the ledger are in `ledger-schema.ts`. drizzle-kit turns both into `drizzle/`;
 * migrations there are only ever added. Times are integer milliseconds, money is integer nano-dollars, ids are UUIDv7 as 32 hex
 * digits; those of prices and of runs of the server ("instance") are shorter.
 */
import { blob, index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { LimitName, Period } from '../../domain/limits.ts'
import type { Origin } from '../../domain/models.ts'
import type { Role, TokenScope } from '../../domain/roles.ts'
import type { PricingItem } from '../../domain/usage.ts'
import type { EntryOf, Kind } from '../catalog-layers.ts'
import type { Ceilings } from '../config-store.ts'

export const count = (name: string) => integer(name).notNull().default(0)
/** Of keys and of teams: what both are held to. */
const limits = () => ({
  ...({ rpm: integer('rpm'), tpm: integer('tpm'), concurrency: integer('concurrency') } satisfies Record<
    LimitName,
    object
  >),
  budgetNanoUsd: integer('budget_nano_usd'),
  budgetPeriod: text('budget_period').$type<Period>(),
})
const flag = (name: string) => integer(name, { mode: 'boolean' })

/** The layers of the catalog (`catalog-layers.ts`): one entry of each kind and name in each. */
export const catalogEntries = sqliteTable(
  'catalog_entries',
  {
    kind: text('kind').$type<Kind>().notNull(),
    /** As `NAMES` has it. */
    name: text('name').notNull(),
    origin: text('origin').$type<Origin>().notNull(),
    /** All that it says, its names among it. References such as `${OPENAI_API_KEY}` are resolved by the server; never a secret itself. */
    fields: text('fields', { mode: 'json' }).$type<EntryOf<Kind>>().notNull(),
  },
  (table) => [primaryKey({ columns: [table.kind, table.name, table.origin] })],
)

/** Credentials that administrators have typed in: of several of an upstream, each conversation has its own. */
export const upstreamCredentials = sqliteTable(
  'upstream_credentials',
  {
    upstream: text('upstream').notNull(),
    /** From 1 on. */
    number: integer('number').notNull(),
    /** AES-GCM under the data folder's `secret`; '' = it is to be typed in again. */
    sealed: text('sealed').notNull(),
  },
  (table) => [primaryKey({ columns: [table.upstream, table.number] })],
)

export const teams = sqliteTable('teams', {
  id: text('id').primaryKey(),
  name: text('name').notNull().unique(),
  scope: text('scope').$type<'all' | 'local'>().notNull().default('all'),
  /** Allow-list patterns; a team without any may use every model of its scope. */
  models: text('models', { mode: 'json' }).$type<string[]>().notNull().default([]),
  ...limits(),
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
    /** The id, in `admins`, of who has made it for themselves. */
    ownerId: text('owner_id'),
    /** Whether it is what the playground of its owner is metered by: it has no secret, and no list shows it. */
    hidden: flag('hidden').notNull().default(false),
    expiresMs: integer('expires_ms'),
    ...limits(),
    /** Addresses and ranges; a key without any may be used from everywhere. */
    allowedIps: text('allowed_ips', { mode: 'json' }).$type<string[]>().notNull().default([]),
    /** Of a member's key: what others have set, and its owner may not lift. */
    ceilings: text('ceilings', { mode: 'json' }).$type<Ceilings>().notNull().default({}),
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
  /** All entries of its layers as JSON, packed (zstd). */
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
  /** Who: `cli`, `file`, `server`, `setup`, `oidc` (an identity provider), or the id of an administrator or a token. */
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

export const admins = sqliteTable('admins', {
  id: text('id').primaryKey(),
  /** What they sign in with; compared without case. */
  name: text('name').notNull().unique(),
  role: text('role').$type<Role>().notNull(),
  /** Of a member: whose keys are of that team. */
  teamId: text('team_id').references(() => teams.id),
  /** argon2id as a PHC string; null for who has not set one. */
  passwordHash: text('password_hash'),
  /** Issuer and subject, with a space between, of who signs in by OpenID Connect. */
  oidcSubject: text('oidc_subject').unique(),
  /** SHA-256 of a code that lets them set a password, once. */
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
    /** SHA-256 of what is in the cookie. */
    hash: text('hash').notNull().unique(),
    /** Where it was begun, and with what: for the list in which its owner may end it. */
    address: text('address').notNull(),
    agent: text('agent').notNull(),
    createdMs: integer('created_ms').notNull(),
    /** Of its last use, to the minute. */
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
    /** The authenticator's own id of it, in base64url. */
    credentialId: text('credential_id').notNull().unique(),
    /** As COSE has it (RFC 9052), in base64url. */
    publicKey: text('public_key').notNull(),
    /** How often it was used, by the authenticator's count; 0 = it keeps none. */
    counter: integer('counter').notNull(),
    /** How browsers reach the authenticator, such as `internal`. */
    transports: text('transports', { mode: 'json' }).$type<readonly string[]>().notNull(),
    /** The name of the host that it is for: browsers use it nowhere else. */
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
  /** SHA-256 of the whole token, 64 lower-case hex digits. */
  hash: text('hash').notNull().unique(),
  lastFour: text('last_four').notNull(),
  createdMs: integer('created_ms').notNull(),
  expiresMs: integer('expires_ms'),
  revokedMs: integer('revoked_ms'),
})
