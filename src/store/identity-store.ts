/**
 * The contract of a store of users, sessions, passkeys, and tokens for scripts. Changes work as in `config-store.ts`, in one transaction with the audit row;
 * only changes of keys are a new revision.
 */
import type { Role, TokenScope } from '../domain/roles.ts'
import type { Actor, Decided, KeyRows, KeyWrite } from './config-store.ts'

export interface StoredAdmin {
  id: string
  /** Sign-in name, lowercase. */
  name: string
  role: Role
  /** Of a member: the team of their keys. */
  teamId: string | null
  /** argon2id as a PHC string; null if not set. */
  passwordHash: string | null
  /** Issuer and subject of OpenID Connect, separated by a space. */
  oidcSubject: string | null
  /** SHA-256 of a one-time code to set a password. */
  codeHash: string | null
  codeExpiresMs: number | null
  createdMs: number
  disabledMs: number | null
}

export interface StoredSession {
  id: string
  adminId: string
  /** SHA-256 of the cookie. */
  hash: string
  address: string
  agent: string
  createdMs: number
  /** Last use, to the minute. */
  seenMs: number
}

/** Public half of a WebAuthn key pair. */
export interface StoredPasskey {
  id: string
  adminId: string
  name: string
  /** The authenticator's ID, base64url. */
  credentialId: string
  /** COSE (RFC 9052), base64url. */
  publicKey: string
  /** The authenticator's use counter; 0 = it keeps none. */
  counter: number
  /** How browsers reach the authenticator, such as `internal`. */
  transports: readonly string[]
  /** Host name for which browsers use it. */
  rpId: string
  createdMs: number
  usedMs: number | null
}

export interface StoredToken {
  id: string
  name: string
  scope: TokenScope
  /** SHA-256 of the whole token, 64 lowercase hex digits. */
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
  /** Read on demand. */
  passkeys(): StoredPasskey[]
  /** Read on demand: there may be thousands. */
  keyRows(): KeyRows
}

/** Rows replace the stored ones; omitted ones stay. */
export interface IdentityWrite extends KeyWrite {
  admins?: StoredAdmin[]
  tokens?: StoredToken[]
  passkeys?: StoredPasskey[]
  /** IDs of passkeys to remove. */
  remove?: readonly string[]
  begin?: StoredSession
  /** Ends sessions by ID, and all sessions of these users except `keep`. */
  end?: { ids?: readonly string[]; of?: readonly string[]; keep?: string }
}

export interface IdentityStore {
  readAdmins(): Promise<StoredAdmin[]>
  /** Oldest first. */
  readTokens(): Promise<StoredToken[]>
  /** Oldest first; of all users by default. */
  readPasskeys(adminId?: string): Promise<StoredPasskey[]>
  /** By user ID; users without passkeys are missing. */
  countPasskeys(): Promise<ReadonlyMap<string, number>>
  /** By the authenticator's ID. */
  findPasskey(credentialId: string): Promise<{ passkey: StoredPasskey; admin: StoredAdmin } | null>
  findToken(hash: string): Promise<StoredToken | null>
  findSession(hash: string): Promise<{ session: StoredSession; admin: StoredAdmin } | null>
  /** Most recently used first; of all users by default. */
  readSessions(adminId?: string): Promise<StoredSession[]>
  /** Records the use of a session, without an audit row. */
  sawSession(id: string, nowMs: number): Promise<void>
  /** Deletes sessions begun, or last used, before these times; no audit row. */
  forgetSessions(before: { createdMs: number; seenMs: number }): Promise<void>
  changeIdentity<T>(by: Actor, decide: (rows: IdentityRows) => Decided<IdentityWrite, T>): Promise<T>
}
