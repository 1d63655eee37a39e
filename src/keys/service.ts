/**
 * Creates, shows, lists and revokes keys; what changes one otherwise is in `edit.ts` and `rotate.ts`. Called by their commands, `serve` (for the
 * first key) and later the dashboard. Keys are revoked and never deleted: the ledger names them. Names are unique among keys in
 * force, so that a command may go by them. Teams have `teams.ts`.
 */

import { toDifference } from '../domain/changes.ts'
import { mintId } from '../domain/id.ts'
import type { Actor, Decided, KeyRows, KeyStore, KeyWrite, StoredKey, StoredTeam } from '../store/config-store.ts'
import { DEFAULTS, type KeyChanges, toFields, withChanges } from './fields.ts'
import { findKey, isLiving, requireFreeName, requireInSight } from './find.ts'
import { checkOptions } from './rules.ts'
import { mintSecret, toMasked } from './token.ts'

export interface KeyOptions extends KeyChanges {
  name: string
  /** The member who makes it for themselves (`identity/own-keys.ts`). */
  ownerId?: string
}

export interface ListedKey extends StoredKey {
  /** Name of its team. */
  team: string | null
  status: 'active' | 'revoked' | 'expired'
}

/** A key with its secret, which nobody can ever show again. */
export interface CreatedKey {
  key: ListedKey
  secret: string
}

/** Creates a key. Throws `invalid`, `team_not_found`, and `key_exists` where a key in force has the name already. */
export function createKey(store: KeyStore, options: KeyOptions, by: Actor): Promise<CreatedKey> {
  return store.changeKeys(by, (rows) => {
    requireFreeName(rows.keys, options.name, by.nowMs)
    return decideKey(rows, options, by)
  })
}

/** Creates a key where there is none yet, and returns its secret; null where there are keys. */
export function createFirstKey(store: KeyStore, options: KeyOptions, by: Actor): Promise<string | null> {
  return store.changeKeys(by, (rows) => {
    if (rows.keys.some(({ hidden }) => !hidden)) return { value: null, change: null }
    const { value, change } = decideKey(rows, options, by)
    return { value: value.secret, change }
  })
}

/** What `createKey` writes and returns, whatever keys there are. Pure, but for the secret and the id that it mints. */
export function decideKey({ teams }: KeyRows, options: KeyOptions, { nowMs }: Actor): Decided<KeyWrite, CreatedKey> {
  const { secret, stored } = mintSecret(nowMs)
  const { name, ownerId = null } = options
  const made = { ...DEFAULTS, id: mintId(nowMs), name, ownerId, createdMs: nowMs, secrets: [stored] }
  const key = withChanges(made, options, teams)
  checkOptions({ ...options, metadata: key.metadata })
  const detail = { name: key.name, key: toMasked(stored.lastFour), ...toDifference({}, toFields(key)) }
  return {
    value: { key: toListed(key, teams, nowMs), secret },
    change: { action: 'keys.create' as const, subject: key.id, detail, write: { keys: [key] } },
  }
}

/** The key that the text means (`find.ts`). Throws `key_not_found` and `key_ambiguous`. */
export async function showKey(store: KeyStore, which: string, nowMs: number): Promise<ListedKey> {
  const { keys, teams } = await store.readKeys()
  return toListed(findKey(keys, which, nowMs), teams, nowMs)
}

/** Lists every key that anybody ever made, oldest first. */
export async function listKeys(store: KeyStore, nowMs: number): Promise<ListedKey[]> {
  return (await listAllKeys(store, nowMs)).filter(({ hidden }) => !hidden)
}

/** The same with those that playgrounds are metered by. */
export async function listAllKeys(store: KeyStore, nowMs: number): Promise<ListedKey[]> {
  const { keys, teams } = await store.readKeys()
  return keys.map((key) => toListed(key, teams, nowMs))
}

/**
 * Revokes the key that the text means (`find.ts`), with all of its secrets. Revoking twice is no error. Throws `key_not_found`,
 * `key_ambiguous` and `key_hidden`.
 */
export function revokeKey(
  store: KeyStore,
  which: string,
  by: Actor,
): Promise<{ key: ListedKey; alreadyRevoked: boolean }> {
  return store.changeKeys(by, ({ keys, teams }) => {
    const found = findKey(keys, which, by.nowMs)
    requireInSight(found)
    const alreadyRevoked = found.revokedMs !== null
    const key = alreadyRevoked ? found : { ...found, revokedMs: by.nowMs }
    const difference = toDifference({ revoked_ms: found.revokedMs }, { revoked_ms: key.revokedMs })
    const record = { action: 'keys.revoke' as const, subject: key.id, detail: { name: key.name, ...difference } }
    return {
      value: { key: toListed(key, teams, by.nowMs), alreadyRevoked },
      change: alreadyRevoked ? null : { ...record, write: { keys: [key] } },
    }
  })
}

/** A key with what others know of it: its team, and whether it is in force. */
export function toListed(key: StoredKey, teams: readonly StoredTeam[], nowMs: number): ListedKey {
  return {
    ...key,
    team: teams.find(({ id }) => id === key.teamId)?.name ?? null,
    status: key.revokedMs !== null ? 'revoked' : isLiving(key, nowMs) ? 'active' : 'expired',
  }
}
