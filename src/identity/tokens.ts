/** Tokens for scripts that use the admin API: made by owners, shown once, hashed, revoked and never deleted. */
import { toDifference } from '../domain/changes.ts'
import { mintId, toShortId } from '../domain/id.ts'
import type { TokenScope } from '../domain/roles.ts'
import { ServiceError } from '../domain/service-error.ts'
import { isLiving, isNamed } from '../keys/find.ts'
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

/** Makes a token, whose secret nobody can ever show again. Throws `invalid`, and `token_exists` where a living token has the name. */
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
  return store.changeIdentity(by, ({ tokens }) => {
    const taken = tokens.find((one) => one.name === name && isLiving(one, by.nowMs))
    if (!taken) return { value: { token, secret }, change }
    const message = `There is a token '${name}' already (${toShortId(taken.id)}).`
    throw new ServiceError({ kind: 'token_exists', token: name, id: taken.id }, message)
  })
}

/**
 * Revokes the token of an id, of at least six digits of one, or of a name: the living one of that name, else the one that expired. Revoking
 * twice is no error. Throws `token_not_found`, and `token_ambiguous` where the text may mean several.
 */
export function revokeToken(store: IdentityStore, which: string, by: Actor): Promise<StoredToken> {
  return store.changeIdentity(by, ({ tokens }) => {
    const found = findToken(tokens, which, by.nowMs)
    if (found.revokedMs !== null) return { value: found, change: null }
    const token = { ...found, revokedMs: by.nowMs }
    const detail = { name: found.name, ...toDifference({ revoked_ms: null }, { revoked_ms: by.nowMs }) }
    return { value: token, change: { action: 'tokens.revoke', subject: found.id, detail, write: { tokens: [token] } } }
  })
}

function findToken(tokens: readonly StoredToken[], which: string, nowMs: number): StoredToken {
  const byId = tokens.find(({ id }) => id === which)
  if (byId) return byId
  const named = tokens.filter((token) => isNamed(token, which))
  const unrevoked = named.filter(({ revokedMs }) => revokedMs === null)
  const living = unrevoked.filter((token) => isLiving(token, nowMs))
  const [found, ...others] = [living, unrevoked, named.slice(-1)].find(({ length }) => length > 0) ?? []
  if (!found) throw new ServiceError({ kind: 'token_not_found', token: which }, `There is no token '${which}'.`)
  if (others.length === 0) return found
  const ids = [found, ...others].slice(0, 5).map(({ id }) => id)
  const message = `'${which}' may mean ${others.length + 1} tokens: ${ids.join(', ')}.`
  throw new ServiceError({ kind: 'token_ambiguous', token: which }, message)
}
