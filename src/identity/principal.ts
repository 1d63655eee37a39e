/** Who asks something of the admin API: a person by their session, or a script by its token. */
import type { Role } from '../domain/roles.ts'
import { hashToken } from '../keys/token.ts'
import type { IdentityStore, StoredAdmin, StoredSession } from '../store/identity-store.ts'

export interface Principal {
  /** For audit rows: the id of an administrator or of a token. */
  id: string
  name: string
  role: Role
  /** Of a member. */
  teamId: string | null
  /** Null for a script. */
  session: StoredSession | null
  hasPassword: boolean
}

/** A session ends so long after it began, and so long after its last use. */
const SESSION_MS = { whole: 30 * 86_400_000, idle: 3 * 86_400_000 }
/** Its last use is noted to the minute: the page asks often. */
const SEEN_MS = 60_000

export const TOKEN_PREFIX = 'sk-tgadm-'

/** Whose session the secret of a cookie is; null where it is none, or nobody's any more. */
export async function findBySession(store: IdentityStore, secret: string, nowMs: number): Promise<Principal | null> {
  const found = await store.findSession(hashToken(secret))
  if (found === null) return null
  const { session, admin } = found
  if (admin.disabledMs !== null || isOver(session, nowMs)) return null
  // A database that is busy keeps nobody out: the next request notes it.
  if (nowMs - session.seenMs >= SEEN_MS) await store.sawSession(session.id, nowMs).catch(() => {})
  return toPrincipal(admin, session)
}

const toPrincipal = ({ id, name, role, teamId, passwordHash }: StoredAdmin, session: StoredSession): Principal => ({
  ...{ id, name, role, teamId, session, hasPassword: passwordHash !== null },
})

const isOver = ({ createdMs, seenMs }: StoredSession, nowMs: number) =>
  nowMs >= createdMs + SESSION_MS.whole || nowMs >= seenMs + SESSION_MS.idle

/** Forgets the sessions that have ended by themselves. */
export const forgetOver = (store: IdentityStore, nowMs: number): Promise<void> =>
  store.forgetSessions({ createdMs: nowMs - SESSION_MS.whole, seenMs: nowMs - SESSION_MS.idle })

/** Whose token it is; null where it is none in force. */
export async function findByToken(store: IdentityStore, token: string, nowMs: number): Promise<Principal | null> {
  if (!token.startsWith(TOKEN_PREFIX)) return null
  const found = await store.findToken(hashToken(token))
  if (found === null || found.revokedMs !== null) return null
  if (found.expiresMs !== null && found.expiresMs <= nowMs) return null
  const role = found.scope === 'write' ? 'editor' : 'viewer'
  return { ...{ id: found.id, name: found.name, role, teamId: null, session: null, hasPassword: false } }
}
