/** Callers of the admin API: users by session, scripts by token. Tokens are shown once, stored as a hash, and revoked but never deleted. */
import { toDifference } from '../domain/changes.ts'
import { mintId, toShortId } from '../domain/id.ts'
import type { Role } from '../domain/roles.ts'
import { ServiceError } from '../domain/service-error.ts'
import { isName, NAME_RULE } from '../keys/definition.ts'
import { isActive, isNamed } from '../keys/find.ts'
import { hashToken, mintToken } from '../keys/token.ts'
import type { Actor } from '../store/config-store.ts'
import type { IdentityStore, StoredAdmin, StoredSession, StoredToken } from '../store/identity-store.ts'
import type { TokenOptions } from './definition.ts'

export interface Principal {
  /** For audit rows: ID of a user or token. */
  id: string
  name: string
  role: Role
  teamId: string | null
  /** Null for scripts. */
  session: StoredSession | null
  hasPassword: boolean
}

/** Maximum lifetime, and time since last use. */
const SESSION_MS = { whole: 30 * 86_400_000, idle: 3 * 86_400_000 }
/** Last use is stored per minute, since pages poll often. */
const SEEN_MS = 60_000

export const TOKEN_PREFIX = 'sk-tgadm-'

/** The user of a session cookie; null if invalid or expired. */
export async function findBySession(store: IdentityStore, secret: string, nowMs: number): Promise<Principal | null> {
  const found = await store.findSession(hashToken(secret))
  if (found === null) return null
  const { session, admin } = found
  if (admin.disabledMs !== null || isOver(session, nowMs)) return null
  // Not essential: the next request retries if the database is busy.
  if (nowMs - session.seenMs >= SEEN_MS) await store.sawSession(session.id, nowMs).catch(() => {})
  return toPrincipal(admin, session)
}

const toPrincipal = ({ id, name, role, teamId, passwordHash }: StoredAdmin, session: StoredSession): Principal => ({
  ...{ id, name, role, teamId, session, hasPassword: passwordHash !== null },
})

const isOver = ({ createdMs, seenMs }: StoredSession, nowMs: number) =>
  nowMs >= createdMs + SESSION_MS.whole || nowMs >= seenMs + SESSION_MS.idle

export const forgetOver = (store: IdentityStore, nowMs: number): Promise<void> =>
  store.forgetSessions({ createdMs: nowMs - SESSION_MS.whole, seenMs: nowMs - SESSION_MS.idle })

/** The token's permissions; null if it is not active. */
export async function findByToken(store: IdentityStore, token: string, nowMs: number): Promise<Principal | null> {
  if (!token.startsWith(TOKEN_PREFIX)) return null
  const found = await store.findToken(hashToken(token))
  if (found === null || found.revokedMs !== null) return null
  if (found.expiresMs !== null && found.expiresMs <= nowMs) return null
  const role = found.scope === 'write' ? 'editor' : 'viewer'
  return { ...{ id: found.id, name: found.name, role, teamId: null, session: null, hasPassword: false } }
}

export async function listSessions(store: IdentityStore, adminId: string | undefined, nowMs: number) {
  await forgetOver(store, nowMs)
  return store.readSessions(adminId)
}

/** @param ofAdminId required owner; null = any. Throws `session_not_found`. */
export async function endSession(
  store: IdentityStore,
  id: string,
  ofAdminId: string | null,
  by: Actor,
): Promise<StoredSession> {
  const found = (await store.readSessions(ofAdminId ?? undefined)).find((session) => session.id === id)
  if (!found) throw new ServiceError({ kind: 'session_not_found' }, 'Session not found. It may have ended.')
  return store.changeIdentity(by, ({ admins }) => {
    const { name } = admins.find((admin) => admin.id === found.adminId) ?? {}
    const detail = { name, address: found.address }
    return {
      value: found,
      change: { action: 'sessions.end', subject: found.adminId, detail, write: { end: { ids: [id] } } },
    }
  })
}

/** The secret cannot be shown again. Throws `invalid`, and `token_exists` if an active token has the name. */
export function createToken(
  store: IdentityStore,
  { name, scope, expiresMs = null }: TokenOptions,
  by: Actor,
): Promise<{ token: StoredToken; secret: string }> {
  if (!isName(name)) throw new ServiceError({ kind: 'invalid', field: 'name' }, `The name of a token ${NAME_RULE}.`)
  if (expiresMs !== null && expiresMs <= by.nowMs)
    throw new ServiceError({ kind: 'invalid', field: 'expires_ms' }, 'The expiry must be in the future.')
  const secret = mintToken(TOKEN_PREFIX)
  const token: StoredToken = {
    ...{ id: mintId(by.nowMs), name, scope, hash: hashToken(secret), lastFour: secret.slice(-4) },
    ...{ createdMs: by.nowMs, expiresMs, revokedMs: null },
  }
  const detail = { name, ...toDifference({}, { scope, expires_ms: expiresMs }) }
  const change = { action: 'tokens.create' as const, subject: token.id, detail, write: { tokens: [token] } }
  return store.changeIdentity(by, ({ tokens }) => {
    const taken = tokens.find((one) => one.name === name && isActive(one, by.nowMs))
    if (!taken) return { value: { token, secret }, change }
    const message = `A token named '${name}' already exists (${toShortId(taken.id)}).`
    throw new ServiceError({ kind: 'token_exists', token: name, id: taken.id }, message)
  })
}

/**
 * Revokes a token by ID, at least six digits of it, or name: an active one, or else an expired one. Repeating it is no error. Throws `token_not_found`, and
 * `token_ambiguous` if several match.
 */
export function revokeToken(store: IdentityStore, which: string, by: Actor): Promise<StoredToken> {
  return store.changeIdentity(by, ({ tokens }) => {
    const found = findToken(tokens, which, by.nowMs)
    if (found.revokedMs !== null) return { value: found, change: null }
    const token = { ...found, revokedMs: by.nowMs }
    const detail = { name: found.name, ...toDifference({ revoked_ms: null }, { revoked_ms: by.nowMs }) }
    return { value: token, change: { action: 'tokens.revoke', subject: found.id, detail, write: { tokens: [token] } } }
  })
}

function findToken(tokens: readonly StoredToken[], which: string, nowMs: number): StoredToken {
  const byId = tokens.find(({ id }) => id === which)
  if (byId) return byId
  const named = tokens.filter((token) => isNamed(token, which))
  const unrevoked = named.filter(({ revokedMs }) => revokedMs === null)
  const living = unrevoked.filter((token) => isActive(token, nowMs))
  const [found, ...others] = [living, unrevoked, named.slice(-1)].find(({ length }) => length > 0) ?? []
  if (!found) throw new ServiceError({ kind: 'token_not_found', token: which }, `Token '${which}' not found.`)
  if (others.length === 0) return found
  const ids = [found, ...others].slice(0, 5).map(({ id }) => id)
  const message = `'${which}' matches ${others.length + 1} tokens: ${ids.join(', ')}.`
  throw new ServiceError({ kind: 'token_ambiguous', token: which }, message)
}
