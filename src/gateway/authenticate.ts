/**
 * Turns a bearer token into a key, from memory alone: a locked or full database never turns a valid key away. Pure but
 * for the hash.
 */
import { allow, type Decision, GatewayError, refuse } from '../domain/error.ts'
import type { Key, Snapshot } from '../domain/snapshot.ts'
import { hashToken, maskToken } from '../keys/token.ts'

/** @param token what stood behind `Bearer`, or null where no such header came. */
export function authenticate(snapshot: Snapshot, token: string | null, nowMs: number): Decision<Key> {
  if (!token) {
    return refuse(
      new GatewayError(
        'no_key',
        "You didn't provide an API key. Send one in the Authorization header: `Authorization: Bearer sk-tg-…`.",
      ),
    )
  }
  const secret = snapshot.secrets.get(hashToken(token))
  if (!secret) return refuse(invalidKey(`Incorrect API key provided: ${maskToken(token)}.`))
  const { key } = secret
  if (key.revokedMs !== null) return refuse(invalidKey(`This API key was revoked: ${maskToken(token)}.`))
  const endsMs = Math.min(key.expiresMs ?? Number.POSITIVE_INFINITY, secret.expiresMs ?? Number.POSITIVE_INFINITY)
  if (endsMs <= nowMs) {
    return refuse(invalidKey(`This API key expired on ${new Date(endsMs).toISOString()}: ${maskToken(token)}.`))
  }
  return allow(key)
}

const invalidKey = (what: string) =>
  new GatewayError('invalid_key', `${what} Ask the administrator of this server for one.`)
