/**
 * The contract of a store of those who sign in: administrators and members, their sessions and passkeys, and tokens for scripts. `identity/`
 * works with any; `sqlite/` has the first. Types only. A change is decided as those of `config-store.ts` are, in one transaction
 * with its audit row; it is a new revision of the configuration only where keys change.
 */
import type { Role, TokenScope } from '../domain/roles.ts'
import type { Actor, Decided, KeyRows, KeyWrite } from './config-store.ts'

export interface StoredAdmin {
  id: string
  /** What they sign in with, in lower case. */
  name: string
  role: Role
  /** Of a member: whose keys are of that team. */
  teamId: string | null
  /** argon2id as a PHC string; null for who has not set one. */
  passwordHash: string | null
  /** Issuer and subject, with a space between, of who signs in by OpenID Connect. */
  oidcSubject: string | null
  /** SHA-256 of a code that lets them set a password, once. */
  codeHash: string | null
  codeExpiresMs: number | null
  createdMs: number
  disabledMs: number | null
}

export interface StoredSession {
  id: string
  adminId: string
  /** SHA-256 of what is in the cookie. */
  hash: string
  address: string
  agent: string
  createdMs: number
  /** Of its last use, to the minute. */
  seenMs: number
}

/** A key pair of somebody's authenticator (W3C WebAuthn), of which this is the half that proves the other. */
export interface StoredPasskey {
  id: string
  adminId: string
  name: string
  /** The authenticator's own id of it, in base64url. */
  credentialId: string
  /** As COSE has it (RFC 9052), in base64url. */
  publicKey: string
  /** How often it was used, by the authenticator's count; 0 = it keeps none. */
  counter: number
  /** How browsers reach the authenticator, such as `internal`. */
  transports: readonly string[]
  /** The name of the host that it is for: browsers use it nowhere else. */
  rpId: string
  createdMs: number
  usedMs: number | null
}

export interface StoredToken {
  id: string
  name: string
  scope: TokenScope
  /** SHA-256 of the whole token, 64 lower-case hex digits. */
  hash: string
  lastFour: string
  createdMs: number
  expiresMs: number | null
  revokedMs: number | null
}

/** Oldest first. */
export interface IdentityRows {
  admins: StoredAdmin[]
  tokens: StoredToken[]
  /** Read where they are asked for. */
  passkeys(): StoredPasskey[]
  /** Read where they are asked for: there may be thousands. */
  keyRows(): KeyRows
}

/** Admins, passkeys, tokens, keys and teams become as they are given, whole; what is not given stays. */
export interface IdentityWrite extends KeyWrite {
  admins?: StoredAdmin[]
  tokens?: StoredToken[]
  passkeys?: StoredPasskey[]
  /** Passkeys that are removed, by their ids. */
  remove?: readonly string[]
  begin?: StoredSession
  /** Sessions that end: those of these ids, and all of these administrators but for the one that is kept. */
  end?: { ids?: readonly string[]; of?: readonly string[]; keep?: string }
}

export interface IdentityStore {
  readAdmins(): Promise<StoredAdmin[]>
  /** Oldest first. */
  readTokens(): Promise<StoredToken[]>
  /** Oldest first; of everybody where nobody is named. */
  readPasskeys(adminId?: string): Promise<StoredPasskey[]>
  /** How many each administrator has who has any, by their ids. */
  countPasskeys(): Promise<ReadonlyMap<string, number>>
  /** By the authenticator's id of it, with whose it is. */
  findPasskey(credentialId: string): Promise<{ passkey: StoredPasskey; admin: StoredAdmin } | null>
  findToken(hash: string): Promise<StoredToken | null>
  /** With whose it is. */
  findSession(hash: string): Promise<{ session: StoredSession; admin: StoredAdmin } | null>
  /** Latest use first; of everybody where nobody is named. */
  readSessions(adminId?: string): Promise<StoredSession[]>
  /** Notes the use of a session: no audit row. */
  sawSession(id: string, nowMs: number): Promise<void>
  /** Forgets sessions begun, or last seen, before these times: no audit row. */
  forgetSessions(before: { createdMs: number; seenMs: number }): Promise<void>
  changeIdentity<T>(by: Actor, decide: (rows: IdentityRows) => Decided<IdentityWrite, T>): Promise<T>
}
