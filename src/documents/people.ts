/** Those who sign in, their sessions, passkeys and tokens, under their columns' names: nothing of it lets anybody in. */
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

/** @param passkeys how many they have. */
export function toAdminDocument(admin: StoredAdmin, passkeys: number): Static<typeof Admin> {
  const revision = toRevision(toAdminFields(admin))
  const { oidc_subject: subject, ...fields } = toAdminFields(admin)
  const ways = { has_password: admin.passwordHash !== null, oidc: subject !== null, passkeys }
  return { id: admin.id, revision, ...fields, status: statusOf(admin), ...ways, created_ms: admin.createdMs }
}

export type AdminDocument = Static<typeof Admin>

/** Of all, with their numbers of passkeys by their ids. */
export const toAdminDocuments = (admins: readonly StoredAdmin[], passkeys: ReadonlyMap<string, number>) =>
  admins.map((admin) => toAdminDocument(admin, passkeys.get(admin.id) ?? 0))

/** With the code that lets them set a password, once. Whoever has one has no passkeys: a reset removes them. */
export const CodedAdmin = Type.Object({
  ...Admin.properties,
  code: Type.String({ description: 'Sets a password, once: shown in this answer alone.' }),
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

/** @param current the id of the session that asks. */
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
  rp_id: Type.String({ description: 'The name of the host that it signs in at.' }),
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
  token: Type.String({ description: 'As much of it as is ever shown again.' }),
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

/** A signed-in person, as the doors answer. */
export const SignedIn = Type.Object({ name: Text, role: wordOf(ROLES) })

/** Who asks; null for nobody. */
export const Who = Type.Object({
  name: TextOrNull,
  role: orNull(wordOf(ROLES)),
  has_password: Type.Boolean({
    description: 'Whether they have one: whoever comes through a provider alone has none.',
  }),
  is_set_up: Type.Boolean({ description: 'Whether there is an owner who can sign in.' }),
  sign_in_methods: Type.Array(wordOf(['password', 'oidc'] as const), { description: 'How people sign in.' }),
  passkeys: Type.Boolean({
    description: 'Whether those with a password sign in with passkeys, too, at the address that was asked.',
  }),
})
