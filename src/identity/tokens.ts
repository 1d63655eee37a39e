/** Tokens for scripts that use the admin API: made by owners, shown once, hashed, revoked and never deleted. */
import { toDifference } from '../domain/difference.ts'
import { mintId } from '../domain/id.ts'
import type { TokenScope } from '../domain/roles.ts'
import { ServiceError } from '../domain/service-error.ts'
import { isName, NAME_RULE } from '../keys/rules.ts'
import { hashToken, mintToken } from '../keys/token.ts'
import type { Actor } from '../store/config-store.ts'
import type { IdentityStore, StoredToken } from '../store/identity-store.ts'
import { TOKEN_PREFIX } from './principal.ts'

export interface TokenOptions {
  name: string
  scope: TokenScope
  expiresMs?: number | null
}

/** Makes a token, whose secret nobody can ever show again. Throws `invalid`. */
export function createToken(
  store: IdentityStore,
  { name, scope, expiresMs = null }: TokenOptions,
  by: Actor,
): Promise<{ token: StoredToken; secret: string }> {
  if (!isName(name)) throw new ServiceError({ kind: 'invalid', field: 'name' }, `The name of a token ${NAME_RULE}.`)
  if (expiresMs !== null && expiresMs <= by.nowMs)
    throw new ServiceError({ kind: 'invalid', field: 'expires_ms' }, 'The token would have expired already.')
  const secret = mintToken(TOKEN_PREFIX)
  const token: StoredToken = {
    ...{ id: mintId(by.nowMs), name, scope, hash: hashToken(secret), lastFour: secret.slice(-4) },
    ...{ createdMs: by.nowMs, expiresMs, revokedMs: null },
  }
  const detail = { name, ...toDifference({}, { scope, expires_ms: expiresMs }) }
  const change = { action: 'tokens.create' as const, subject: token.id, detail, write: { tokens: [token] } }
  return store.changeIdentity(by, () => ({ value: { token, secret }, change }))
}

/** Revokes the token of an id or of a name. Revoking twice is no error. Throws `token_not_found`. */
export function revokeToken(store: IdentityStore, which: string, by: Actor): Promise<StoredToken> {
  return store.changeIdentity(by, ({ tokens }) => {
    const named = tokens.filter(({ id, name }) => id === which || name === which)
    const found = named.find(({ revokedMs }) => revokedMs === null) ?? named[0]
    if (!found) throw new ServiceError({ kind: 'token_not_found', token: which }, `There is no token '${which}'.`)
    if (found.revokedMs !== null) return { value: found, change: null }
    const token = { ...found, revokedMs: by.nowMs }
    const detail = { name: found.name, ...toDifference({ revoked_ms: null }, { revoked_ms: by.nowMs }) }
    return { value: token, change: { action: 'tokens.revoke', subject: found.id, detail, write: { tokens: [token] } } }
  })
}
