/** The contract of a store of users, sessions, passkeys, and tokens. Changes work as in `config-store.ts`; only changes of keys are a new revision. */
import type { Role, TokenScope } from '../domain/roles.ts'
import type { Actor, Decided, KeyRows, KeyWrite } from './config-store.ts'

export interface StoredAdmin {
  id: string
  /** Lowercase. */
  name: string
  role: Role
  /** Of members. */
  teamId: string | null
  /** argon2id as a PHC string. */
  passwordHash: string | null
  /** Issuer and subject, separated by a space. */
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

export interface StoredPasskey {
  id: string
  adminId: string
  name: string
  /** The authenticator's ID, base64url. */
  credentialId: string
  /** COSE (RFC 9052), base64url. */
  publicKey: string
  /** 0 = the authenticator keeps none. */
  counter: number
  /** Such as `internal`. */
  transports: readonly string[]
  /** Host name. */
  rpId: string
  createdMs: number
  usedMs: number | null
}

export interface StoredToken {
  id: string
  name: string
  scope: TokenScope
  /** SHA-256 of the token, as hex. */
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
  passkeys(): StoredPasskey[]
  /** On demand: there may be thousands. */
  keyRows(): KeyRows
}

/** Rows replace the stored ones. */
export interface IdentityWrite extends KeyWrite {
  admins?: StoredAdmin[]
  tokens?: StoredToken[]
  passkeys?: StoredPasskey[]
  remove?: readonly string[]
  begin?: StoredSession
  /** By ID, and all of these users except `keep`. */
  end?: { ids?: readonly string[]; of?: readonly string[]; keep?: string }
}

export interface IdentityStore {
  readAdmins(): Promise<StoredAdmin[]>
  /** Oldest first. */
  readTokens(): Promise<StoredToken[]>
  /** Oldest first; of all users by default. */
  readPasskeys(adminId?: string): Promise<StoredPasskey[]>
  /** Without users that have none. */
  countPasskeys(): Promise<ReadonlyMap<string, number>>
  findPasskey(credentialId: string): Promise<{ passkey: StoredPasskey; admin: StoredAdmin } | null>
  findToken(hash: string): Promise<StoredToken | null>
  findSession(hash: string): Promise<{ session: StoredSession; admin: StoredAdmin } | null>
  /** Most recently used first; of all users by default. */
  readSessions(adminId?: string): Promise<StoredSession[]>
  /** No audit row. */
  sawSession(id: string, nowMs: number): Promise<void>
  /** Begun, or last used, before; no audit row. */
  forgetSessions(before: { createdMs: number; seenMs: number }): Promise<void>
  changeIdentity<T>(by: Actor, decide: (rows: IdentityRows) => Decided<IdentityWrite, T>): Promise<T>
}
