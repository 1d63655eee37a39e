/** Tokens for scripts: `/admin/api/tokens`. A secret is in one answer, that of its making. No token makes another: none is an owner's. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { toTokenDocument } from '../documents/admin.ts'
import { TOKEN_SCOPES } from '../domain/roles.ts'
import { createToken, revokeToken } from '../identity/tokens.ts'
import { access } from './access.ts'
import { actors } from './actor.ts'
import type { AdminDeps } from './deps.ts'
import { exactly, oneOf, orNone } from './schema.ts'

const TokenBody = exactly({ name: Type.String(), scope: oneOf(TOKEN_SCOPES), expires_ms: orNone(Type.Integer()) })

export function tokensController({ identity, ...deps }: AdminDeps) {
  const by = actors(deps)

  return new Elysia({ name: 'tokens' })
    .use(access())
    .get('/tokens', async () => ({ tokens: (await identity.readTokens()).map(toTokenDocument) }), { least: 'owner' })
    .post(
      '/tokens',
      async ({ principal, body: { name, scope, expires_ms: expiresMs = null } }) => {
        const { token, secret } = await createToken(identity, { name, scope, expiresMs }, by(principal))
        return { ...toTokenDocument(token), token: secret }
      },
      { least: 'owner', body: TokenBody },
    )
    .post(
      '/tokens/:id/revoke',
      async ({ principal, params: { id } }) => toTokenDocument(await revokeToken(identity, id, by(principal))),
      { least: 'owner' },
    )
}
