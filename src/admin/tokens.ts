/** Tokens for scripts: `/admin/api/tokens`. A secret is in one answer, that of its making. No token makes another: none is an owner's. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { Token, toTokenDocument } from '../documents/people.ts'
import { TOKEN_SCOPES } from '../domain/roles.ts'
import { createToken, revokeToken } from '../identity/tokens.ts'
import { access } from './access.ts'
import { actors } from './actor.ts'
import type { AdminDeps } from './deps.ts'
import { exactly, Name, oneOf, orNone } from './schema.ts'

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
