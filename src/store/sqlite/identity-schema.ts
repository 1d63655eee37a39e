/** The tables of those who sign in: administrators and members, their sessions and passkeys, and tokens for scripts. */
import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { Role, TokenScope } from '../../domain/roles.ts'
import { teams } from './schema.ts'

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
