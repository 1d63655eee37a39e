/** Those who sign in, their sessions, passkeys and tokens, under their columns' names: nothing of it lets anybody in. */
import { statusOf } from '../identity/admins.ts'
import { TOKEN_PREFIX } from '../identity/principal.ts'
import type { StoredAdmin, StoredPasskey, StoredSession, StoredToken } from '../store/identity-store.ts'

export const toAdminDocument = (admin: StoredAdmin) => ({
  id: admin.id,
  name: admin.name,
  role: admin.role,
  team_id: admin.teamId,
  status: statusOf(admin),
  has_password: admin.passwordHash !== null,
  oidc: admin.oidcSubject !== null,
  created_ms: admin.createdMs,
  disabled_ms: admin.disabledMs,
})

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
