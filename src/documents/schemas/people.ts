/** What is told of those who sign in. */
import { Type } from '@sinclair/typebox'
import { ROLES, TOKEN_SCOPES } from '../../domain/roles.ts'
import type { toAdminDocument, toPasskeyDocument, toSessionDocument, toTokenDocument } from '../admin.ts'
import { Count, describes, Flag, orNull, Revision, Text, TextOrNull, Time, TimeOrNull, wordOf } from './describes.ts'

export const Admin = describes<ReturnType<typeof toAdminDocument>>()(
  Type.Object({
    id: Text,
    revision: Revision,
    name: Text,
    role: wordOf(ROLES),
    team_id: TextOrNull,
    status: wordOf(['active', 'invited', 'disabled'] as const),
    has_password: Flag,
    oidc: Flag,
    passkeys: Count,
    created_ms: Time,
    disabled_ms: TimeOrNull,
  }),
)

export const Session = describes<ReturnType<typeof toSessionDocument>>()(
  Type.Object({
    id: Text,
    admin_id: Text,
    address: Text,
    agent: Text,
    created_ms: Time,
    seen_ms: Time,
    is_current: Flag,
  }),
)

export const Passkey = describes<ReturnType<typeof toPasskeyDocument>>()(
  Type.Object({
    id: Text,
    name: Text,
    rp_id: Type.String({ description: 'The name of the host that it signs in at.' }),
    created_ms: Time,
    used_ms: TimeOrNull,
  }),
)

export const Token = describes<ReturnType<typeof toTokenDocument>>()(
  Type.Object({
    id: Text,
    name: Text,
    scope: wordOf(TOKEN_SCOPES),
    token: Type.String({ description: 'As much of it as is ever shown again.' }),
    created_ms: Time,
    expires_ms: TimeOrNull,
    revoked_ms: TimeOrNull,
  }),
)

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
  ways: Type.Array(wordOf(['password', 'oidc'] as const), { description: 'How people sign in.' }),
  passkeys: Type.Boolean({
    description: 'Whether those with a password sign in with passkeys, too, at the address that was asked.',
  }),
})
