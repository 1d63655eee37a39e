/** Gives a key a new secret, and the ones before it an end. The key's id, limits and spend stay. Called by `keys rotate`. */

import { toDifference } from '../domain/changes.ts'
import { ServiceError } from '../domain/service-error.ts'
import { DAY_MS } from '../domain/time.ts'
import type { Actor, KeyStore, StoredSecret } from '../store/config-store.ts'
import { findKey, isLiving, requireInSight, requireUnrevoked } from './find.ts'
import { type CreatedKey, toListed } from './service.ts'
import { mintSecret, toMasked } from './token.ts'

/** How long the secret before works on beside the new one, where nothing is said. */
export const DEFAULT_OVERLAP_MS = DAY_MS

/** Whoever wants both for longer wants two keys. */
export const OVERLAP_MS = { min: 0, max: 365 * DAY_MS }

/** So long after its end a secret is known for what it was. */
const REMEMBERED_MS = 90 * DAY_MS

/**
 * Gives the key that the text means (`find.ts`) a new secret. All others end after the overlap, or earlier where an earlier
 * rotation has said so: no rotation keeps a secret alive, and an overlap of 0 leaves the new one alone. Throws `invalid`,
 * `key_not_found`, `key_ambiguous`, `key_hidden`, `key_revoked` and `key_expired`.
 */
export function rotateKey(store: KeyStore, which: string, overlapMs: number, by: Actor): Promise<CreatedKey> {
  return store.changeKeys(by, ({ keys, teams }) => {
    const { nowMs } = by
    if (!Number.isInteger(overlapMs) || overlapMs < OVERLAP_MS.min || overlapMs > OVERLAP_MS.max)
      throw new ServiceError(
        { kind: 'invalid', field: 'overlapMs' },
        'The overlap is invalid: it may be 365 days long.',
      )
    const found = findKey(keys, which, nowMs)
    requireInSight(found)
    requireUnrevoked(found)
    if (!isLiving(found, nowMs))
      throw new ServiceError({ kind: 'key_expired', key: found.name }, `The key '${found.name}' has expired.`)
    const { secret, stored } = mintSecret(nowMs)
    const before = found.secrets
      .map((one) => ({ ...one, expiresMs: Math.min(one.expiresMs ?? Number.POSITIVE_INFINITY, nowMs + overlapMs) }))
      .filter(({ expiresMs }) => expiresMs > nowMs - REMEMBERED_MS)
    // Newest last, also where the clock was set back.
    const createdMs = Math.max(nowMs, found.secrets.at(-1)?.createdMs ?? nowMs)
    const key = { ...found, secrets: [...before, { ...stored, createdMs }] }
    const difference = toDifference(toFields(found.secrets, key.secrets), toFields(key.secrets, found.secrets))
    const detail = { name: key.name, key: toMasked(stored.lastFour), ...difference }
    return {
      value: { key: toListed(key, teams, nowMs), secret },
      change: { action: 'keys.rotate' as const, subject: key.id, detail, write: { keys: [key] } },
    }
  })
}

/** Those that are not the same among the others. */
const toFields = (secrets: readonly StoredSecret[], others: readonly StoredSecret[]) => ({
  secrets: secrets
    .filter(({ hash, expiresMs }) => !others.some((other) => other.hash === hash && other.expiresMs === expiresMs))
    .map(({ lastFour, expiresMs }) => ({ last_four: lastFour, expires_ms: expiresMs })),
})
