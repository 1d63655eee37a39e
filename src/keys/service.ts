/**
 * Creates, revokes and lists keys. Called by their commands, `serve` (for the first key) and later the dashboard. Keys are
 * revoked and never deleted: the ledger names them. A secret leaves this file once, from `createKey`. Names are unique among
 * keys in force, so that a command may go by them. Teams have `teams.ts`.
 */

import { mintId, toShortId } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Actor, ConfigStore, Decided, KeyRows, KeyWrite, StoredKey, StoredTeam } from '../store/config-store.ts'
import { findKey, findTeam, isLiving } from './find.ts'
import { type CheckedOptions, checkOptions, toAllowedIps } from './rules.ts'
import { hashToken, mintToken, toMasked } from './token.ts'

/** `models` are patterns over slugs; none = every model of the scope. `allowedIps` are addresses and ranges; none = from everywhere. */
export interface KeyOptions extends CheckedOptions {
  scope?: 'all' | 'local'
  /** A team's id or name. */
  team?: string
  expiresMs?: number | null
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
export function createKey(store: ConfigStore, options: KeyOptions, by: Actor): Promise<CreatedKey> {
  return store.changeKeys(by, (rows) => {
    const { name } = options
    const taken = rows.keys.find((key) => key.name === name && isLiving(key, by.nowMs))
    if (!taken) return decideKey(rows, options, by)
    const message = `There is a key '${name}' already (${toShortId(taken.id)}).`
    throw new ServiceError({ kind: 'key_exists', key: name, id: taken.id }, message)
  })
}

/** Creates a key where there is none yet, and returns its secret; null where there are keys. */
export function createFirstKey(store: ConfigStore, options: KeyOptions, by: Actor): Promise<string | null> {
  return store.changeKeys(by, (rows) => {
    if (rows.keys.length > 0) return { value: null, change: null }
    const { value, change } = decideKey(rows, options, by)
    return { value: value.secret, change }
  })
}

/** What `createKey` writes and returns, whatever keys there are. Pure, but for the secret and the id that it mints. */
export function decideKey({ teams }: KeyRows, options: KeyOptions, { nowMs }: Actor): Decided<KeyWrite, CreatedKey> {
  checkOptions(options)
  const secret = mintToken()
  const lastFour = secret.slice(-4)
  const key: StoredKey = {
    id: mintId(nowMs),
    name: options.name,
    scope: options.scope ?? 'all',
    teamId: options.team === undefined ? null : findTeam(teams, options.team).id,
    expiresMs: options.expiresMs ?? null,
    revokedMs: null,
    models: [...new Set(options.models)],
    allowedIps: toAllowedIps(options.allowedIps),
    limits: {
      requestsPerMinute: options.requestsPerMinute ?? null,
      tokensPerMinute: options.tokensPerMinute ?? null,
      concurrency: options.concurrency ?? null,
    },
    budget: options.budget ?? null,
    metadata: {},
    createdMs: nowMs,
    secrets: [{ hash: hashToken(secret), lastFour, createdMs: nowMs, expiresMs: null }],
  }
  const detail = { name: key.name, key: toMasked(lastFour) }
  return {
    value: { key: toListed(key, teams, nowMs), secret },
    change: { action: 'keys.create', subject: key.id, detail, write: { keys: [key] } },
  }
}

/** Lists every key there ever was, oldest first. */
export async function listKeys(store: ConfigStore, nowMs: number): Promise<ListedKey[]> {
  const { keys, teams } = await store.readKeys()
  return keys.map((key) => toListed(key, teams, nowMs))
}

/**
 * Revokes the key that the text means (`find.ts`). Revoking twice is no error. Throws `key_not_found` and `key_ambiguous`.
 */
export function revokeKey(
  store: ConfigStore,
  which: string,
  by: Actor,
): Promise<{ key: ListedKey; alreadyRevoked: boolean }> {
  return store.changeKeys(by, ({ keys, teams }) => {
    const found = findKey(keys, which, by.nowMs)
    const alreadyRevoked = found.revokedMs !== null
    const key = alreadyRevoked ? found : { ...found, revokedMs: by.nowMs }
    const record = { action: 'keys.revoke', subject: key.id, detail: { name: key.name } }
    return {
      value: { key: toListed(key, teams, by.nowMs), alreadyRevoked },
      change: alreadyRevoked ? null : { ...record, write: { keys: [key] } },
    }
  })
}

function toListed(key: StoredKey, teams: readonly StoredTeam[], nowMs: number): ListedKey {
  return {
    ...key,
    team: teams.find(({ id }) => id === key.teamId)?.name ?? null,
    status: key.revokedMs !== null ? 'revoked' : isLiving(key, nowMs) ? 'active' : 'expired',
  }
}
