/** Those who sign in, their sessions, passkeys and tokens, under their columns' names: nothing of it lets anybody in. */
import { toRevision } from '../domain/changes.ts'
import { statusOf, toAdminFields } from '../identity/admins.ts'
import { TOKEN_PREFIX } from '../identity/principal.ts'
import type { StoredAdmin, StoredPasskey, StoredSession, StoredToken } from '../store/identity-store.ts'

/** @param passkeys how many they have. */
export const toAdminDocument = (admin: StoredAdmin, passkeys: number) => ({
  id: admin.id,
  revision: toRevision(toAdminFields(admin)),
  name: admin.name,
  role: admin.role,
  team_id: admin.teamId,
  status: statusOf(admin),
  has_password: admin.passwordHash !== null,
  oidc: admin.oidcSubject !== null,
  passkeys,
  created_ms: admin.createdMs,
  disabled_ms: admin.disabledMs,
})

/** Of all, with their numbers of passkeys by their ids. */
export const toAdminDocuments = (admins: readonly StoredAdmin[], passkeys: ReadonlyMap<string, number>) =>
  admins.map((admin) => toAdminDocument(admin, passkeys.get(admin.id) ?? 0))

/** @param current the id of the session that asks. */
export const toSessionDocument = (session: StoredSession, current: string | null) => ({
  id: session.id,
  admin_id: session.adminId,
  address: session.address,
  agent: session.agent,
  created_ms: session.createdMs,
  seen_ms: session.seenMs,
  is_current: session.id === current,
})

export const toPasskeyDocument = (passkey: StoredPasskey) => ({
  id: passkey.id,
  name: passkey.name,
  rp_id: passkey.rpId,
  created_ms: passkey.createdMs,
  used_ms: passkey.usedMs,
})

export const toTokenDocument = (token: StoredToken) => ({
  id: token.id,
  name: token.name,
  scope: token.scope,
  token: `${TOKEN_PREFIX}…${token.lastFour}`,
  created_ms: token.createdMs,
  expires_ms: token.expiresMs,
  revoked_ms: token.revokedMs,
})
