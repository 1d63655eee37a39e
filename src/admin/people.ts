/**
 * Those who may sign in, and tokens for scripts: `/admin/api/admins` and `/tokens`. A code to set a password with, and a token, is in one answer,
 * that of its making. No token makes another: none is an owner's.
 */

import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { Count, Text } from '../documents/fields.ts'
import {
  Admin,
  CodedAdmin,
  Token,
  toAdminDocument,
  toAdminDocuments,
  toCodedDocument,
  toTokenDocument,
} from '../documents/people.ts'
import { ROLES, TOKEN_SCOPES } from '../domain/roles.ts'
import { editAdmin, inviteAdmin, inviteAgain } from '../identity/admins.ts'
import { createToken, revokeToken } from '../identity/principal.ts'
import { access } from './access.ts'
import { actors, inForce } from './changes.ts'
import type { AdminDeps } from './deps.ts'
import { exactly, Name, oneOf, orNone } from './schema.ts'

const role = oneOf(ROLES, { description: 'What they may do.' })
const team = orNone(Type.String(), 'Of a member. By id, a part of it, or name; null: none.')
const AdminBody = exactly({ role, team, name: Type.String({ description: 'What they sign in with.' }) })
const AdminPatch = exactly({
  ...{ role: Type.Optional(role), team },
  disabled: Type.Optional(Type.Boolean({ description: 'True ends their sessions and revokes keys of their own.' })),
})

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
          summary: 'Lists those who may sign in, disabled ones too',
          answer: Type.Object({ admins: Type.Array(Admin) }),
        },
      },
    )
    .post('/admins', async ({ principal, body }) => toCodedDocument(await inviteAdmin(identity, body, by(principal))), {
      route: {
        least: 'owner',
        summary: 'Invites somebody, with a code that is good for a week',
        answer: CodedAdmin,
        errors: ['admin_exists', 'team_not_found', 'team_ambiguous'],
      },
      body: AdminBody,
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
          summary: "Changes somebody's role or team, disables or enables them",
          description:
            'Who is disabled loses their sessions, and keys of their own are revoked. A member who changes teams takes them along.',
          answer: Type.Object({
            ...{ ...Admin.properties, changed: Type.Array(Text), keys_revoked: Count, keys_moved: Count },
          }),
          errors: ['admin_not_found', 'last_owner', 'team_not_found', 'team_ambiguous'],
        },
        body: AdminPatch,
      },
    )
    .post(
      '/admins/:id/invite',
      async ({ principal, params: { id } }) => toCodedDocument(await inviteAgain(identity, id, by(principal))),
      {
        route: {
          least: 'owner',
          summary: 'Invites somebody once more who has not set a password yet: the code before ends',
          answer: CodedAdmin,
          errors: ['admin_not_found', 'invalid'],
        },
      },
    )
}

const TokenBody = exactly({
  name: Name,
  scope: oneOf(TOKEN_SCOPES, { description: 'Whether it reads, or writes, too.' }),
  expires_ms: orNone(Type.Integer(), 'When it ends, ms since 1970; null: never.'),
})

export function tokensController({ identity, ...deps }: AdminDeps) {
  const by = actors(deps)

  return new Elysia({ name: 'tokens' })
    .use(access())
    .get('/tokens', async () => ({ tokens: (await identity.readTokens()).map(toTokenDocument) }), {
      route: {
        least: 'owner',
        summary: 'Lists tokens for scripts',
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
          summary: 'Makes a token',
          errors: ['token_exists'],
          answer: Type.Object({
            ...Token.properties,
            token: Type.String({ description: 'The whole of it: shown in this answer alone.' }),
          }),
        },
        body: TokenBody,
      },
    )
    .post(
      '/tokens/:id/revoke',
      async ({ principal, params: { id } }) => toTokenDocument(await revokeToken(identity, id, by(principal))),
      {
        route: {
          least: 'owner',
          summary: 'Revokes a token',
          answer: Token,
          errors: ['token_not_found', 'token_ambiguous'],
        },
      },
    )
}
