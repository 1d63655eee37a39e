/** Users, sessions, passkeys, and tokens in JSON, without secrets unless just created. */
import { type Static, Type } from '@sinclair/typebox'
import { toRevision } from '../domain/changes.ts'
import { ROLES, TOKEN_SCOPES } from '../domain/roles.ts'
import { statusOf, toAdminFields } from '../identity/admins.ts'
import { ADMIN_FIELDS, TOKEN_FIELDS } from '../identity/definition.ts'
import { TOKEN_PREFIX } from '../identity/principal.ts'
import type { StoredAdmin, StoredPasskey, StoredSession, StoredToken } from '../store/identity-store.ts'
import { Count, Flag, orNull, Revision, Text, TextOrNull, Time, TimeOrNull, wordOf } from './fields.ts'

export const Admin = Type.Object({
  id: Text,
  revision: Revision,
  name: { ...Text, description: ADMIN_FIELDS.name.says },
  role: { ...wordOf(ROLES), description: ADMIN_FIELDS.role.says },
  team_id: TextOrNull,
  status: wordOf(['active', 'invited', 'disabled'] as const),
  has_password: Flag,
  oidc: Flag,
  passkeys: Count,
  created_ms: Time,
  disabled_ms: TimeOrNull,
})

/** @param passkeys their number */
export function toAdminDocument(admin: StoredAdmin, passkeys: number): Static<typeof Admin> {
  const revision = toRevision(toAdminFields(admin))
  const { oidc_subject: subject, ...fields } = toAdminFields(admin)
  const ways = { has_password: admin.passwordHash !== null, oidc: subject !== null, passkeys }
  return { id: admin.id, revision, ...fields, status: statusOf(admin), ...ways, created_ms: admin.createdMs }
}

export type AdminDocument = Static<typeof Admin>

/** @param passkeys numbers by user ID */
export const toAdminDocuments = (admins: readonly StoredAdmin[], passkeys: ReadonlyMap<string, number>) =>
  admins.map((admin) => toAdminDocument(admin, passkeys.get(admin.id) ?? 0))

/** With a one-time code to set a password. Such a user has no passkeys, since a reset removes them. */
export const CodedAdmin = Type.Object({
  ...Admin.properties,
  code: Type.String({ description: 'One-time code to set a password. Returned only once.' }),
  code_expires_ms: TimeOrNull,
})

export type CodedDocument = Static<typeof CodedAdmin>

export const toCodedDocument = ({ admin, code }: { admin: StoredAdmin; code: string }): Static<typeof CodedAdmin> => ({
  ...toAdminDocument(admin, 0),
  code,
  code_expires_ms: admin.codeExpiresMs,
})

export const Session = Type.Object({
  ...{ id: Text, admin_id: Text, address: Text, agent: Text },
  ...{ created_ms: Time, seen_ms: Time, is_current: Flag },
})

/** @param current ID of the requesting session */
export const toSessionDocument = (session: StoredSession, current: string | null): Static<typeof Session> => ({
  id: session.id,
  admin_id: session.adminId,
  address: session.address,
  agent: session.agent,
  created_ms: session.createdMs,
  seen_ms: session.seenMs,
  is_current: session.id === current,
})

export const Passkey = Type.Object({
  id: Text,
  name: Text,
  rp_id: Type.String({ description: 'Host name that the passkey works at.' }),
  created_ms: Time,
  used_ms: TimeOrNull,
})

export const toPasskeyDocument = (passkey: StoredPasskey): Static<typeof Passkey> => ({
  id: passkey.id,
  name: passkey.name,
  rp_id: passkey.rpId,
  created_ms: passkey.createdMs,
  used_ms: passkey.usedMs,
})

export const Token = Type.Object({
  id: Text,
  name: { ...Text, description: TOKEN_FIELDS.name.says },
  scope: { ...wordOf(TOKEN_SCOPES), description: TOKEN_FIELDS.scope.says },
  token: Type.String({ description: 'Prefix and last four characters.' }),
  created_ms: Time,
  expires_ms: { ...TimeOrNull, description: TOKEN_FIELDS.expiresMs.says },
  revoked_ms: TimeOrNull,
})

export const toTokenDocument = (token: StoredToken): Static<typeof Token> => ({
  id: token.id,
  name: token.name,
  scope: token.scope,
  token: `${TOKEN_PREFIX}…${token.lastFour}`,
  created_ms: token.createdMs,
  expires_ms: token.expiresMs,
  revoked_ms: token.revokedMs,
})

export const SignedIn = Type.Object({ name: Text, role: wordOf(ROLES) })

/** The current user; null fields if signed out. */
export const Who = Type.Object({
  name: TextOrNull,
  role: orNull(wordOf(ROLES)),
  has_password: Type.Boolean({
    description: 'True if the user has a password. Users who only sign in with SSO have none.',
  }),
  is_set_up: Type.Boolean({ description: 'True if an owner can sign in.' }),
  sign_in_methods: Type.Array(wordOf(['password', 'oidc'] as const), { description: 'Enabled sign-in methods.' }),
  passkeys: Type.Boolean({
    description: 'True if passkeys work at the requested host.',
  }),
})
