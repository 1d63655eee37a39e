/** `/admin/api/admins` (users) and `/tokens`. Codes and tokens are only in the response that creates them; tokens can't create tokens. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { type Columns, Count, Text } from '../documents/fields.ts'
import {
  Admin,
  CodedAdmin,
  Token,
  toAdminDocument,
  toAdminDocuments,
  toCodedDocument,
  toTokenDocument,
} from '../documents/people.ts'
import { editAdmin, inviteAdmin, inviteAgain } from '../identity/admins.ts'
import {
  ADMIN_CHANGES,
  ADMIN_FIELDS,
  type AdminChanges,
  type AdminOptions,
  TOKEN_FIELDS,
  type TokenOptions,
} from '../identity/definition.ts'
import { createToken, revokeToken } from '../identity/principal.ts'
import { access } from './access.ts'
import { actors, inForce } from './changes.ts'
import type { AdminDeps } from './deps.ts'
import { toBody } from './keys.ts'

export function adminsController(deps: AdminDeps) {
  const { identity, ways, serving } = deps
  const by = actors(deps)

  return new Elysia({ name: 'admins' })
    .use(access())
    .onAfterHandle(inForce({ serving }))
    .get(
      '/admins',
      async () => ({ admins: toAdminDocuments(await identity.readAdmins(), await identity.countPasskeys()) }),
      {
        route: {
          least: 'owner',
          summary: 'List users, including disabled ones',
          answer: Type.Object({ admins: Type.Array(Admin) }),
        },
      },
    )
    .post('/admins', async ({ principal, body }) => toCodedDocument(await inviteAdmin(identity, body, by(principal))), {
      route: {
        least: 'owner',
        summary: 'Invite a user. The code is valid for one week',
        answer: CodedAdmin,
        errors: ['admin_exists', 'team_not_found', 'team_ambiguous'],
      },
      body: toBody<AdminOptions>(ADMIN_FIELDS, ['name', 'role']),
    })
    .patch(
      '/admins/:id',
      async ({ request, principal, params: { id }, body }) => {
        const { admin, difference, revoked, moved } = await editAdmin(identity, id, body, by(principal, request), ways)
        const passkeys = (await identity.countPasskeys()).get(admin.id) ?? 0
        const changed = Object.keys(difference?.after ?? {})
        return { ...toAdminDocument(admin, passkeys), changed, keys_revoked: revoked.length, keys_moved: moved.length }
      },
      {
        route: {
          least: 'owner',
          edits: true,
          summary: "Change a user's role or team, or disable or enable them",
          description:
            "Disabling a user ends their sessions and revokes their keys. A member's keys move with them to another team.",
          answer: Type.Object({
            ...{ ...Admin.properties, changed: Type.Array(Text), keys_revoked: Count, keys_moved: Count },
          }),
          errors: ['admin_not_found', 'last_owner', 'team_not_found', 'team_ambiguous'],
        },
        body: toBody<AdminChanges>(ADMIN_CHANGES, []),
      },
    )
    .post(
      '/admins/:id/invite',
      async ({ principal, params: { id } }) => toCodedDocument(await inviteAgain(identity, id, by(principal))),
      {
        route: {
          least: 'owner',
          summary: 'Re-invite a user without a password. The previous code expires',
          answer: CodedAdmin,
          errors: ['admin_not_found', 'invalid'],
        },
      },
    )
}

export function tokensController({ identity, ...deps }: AdminDeps) {
  const by = actors(deps)

  return new Elysia({ name: 'tokens' })
    .use(access())
    .get('/tokens', async () => ({ tokens: (await identity.readTokens()).map(toTokenDocument) }), {
      route: {
        least: 'owner',
        summary: 'List admin API tokens',
        answer: Type.Object({ tokens: Type.Array(Token) }),
      },
    })
    .post(
      '/tokens',
      async ({ principal, body: { name, scope, expires_ms: expiresMs = null } }) => {
        const { token, secret } = await createToken(identity, { name, scope, expiresMs }, by(principal))
        return { ...toTokenDocument(token), token: secret }
      },
      {
        route: {
          least: 'owner',
          summary: 'Create a token',
          errors: ['token_exists'],
          answer: Type.Object({
            ...Token.properties,
            token: Type.String({ description: 'The token. Returned only once.' }),
          }),
        },
        body: toBody<Columns<TokenOptions>>(TOKEN_FIELDS, ['name', 'scope']),
      },
    )
    .post(
      '/tokens/:id/revoke',
      async ({ principal, params: { id } }) => toTokenDocument(await revokeToken(identity, id, by(principal))),
      {
        route: {
          least: 'owner',
          summary: 'Revoke a token',
          answer: Token,
          errors: ['token_not_found', 'token_ambiguous'],
        },
      },
    )
}
