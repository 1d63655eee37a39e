/**
 * Creates, shows, lists, changes, rotates and revokes keys, and creates, shows, lists and changes teams, whose keys share limits, a list of
 * models and a budget. Called by the admin API, and by `serve` for the first key. Nothing is ever deleted: the ledger names it. Names are
 * unique among keys in force and among teams, so that a command may go by them.
 */

import { type Difference, requireRevision, toDifference } from '../domain/changes.ts'
import { mintId, toShortId } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import { DAY_MS } from '../domain/time.ts'
import type {
  Actor,
  Decided,
  KeyRows,
  KeyStore,
  KeyWrite,
  StoredKey,
  StoredSecret,
  StoredTeam,
} from '../store/config-store.ts'
import { NEW_KEY, NEW_TEAM, toCeilings, toKeyFields, toTeamFields, withKeyChanges, withTeamChanges } from './changes.ts'
import type { KeyChanges, TeamChanges } from './definition.ts'
import { findKey, findTeam, isLiving, requireFreeName, requireInSight, requireUnrevoked } from './find.ts'
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
  const made = { ...NEW_KEY, id: mintId(nowMs), name, ownerId, createdMs: nowMs, secrets: [stored] }
  const key = withKeyChanges(made, options, teams)
  const detail = { name: key.name, key: toMasked(stored.lastFour), ...toDifference({}, toKeyFields(key)) }
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

export interface EditedKey {
  before: ListedKey
  key: ListedKey
  /** Null where the key was like that already: then nothing was written. */
  difference: Difference | null
}

/**
 * Changes the key that the text means (`find.ts`). One that has expired is in force again once it expires later. Throws `invalid`,
 * `key_not_found`, `key_ambiguous`, `key_revoked`, `team_not_found`, `key_exists` where it would be the second key in force of
 * its name, `revision_conflict`, and `key_hidden` for what may not be changed of such a key. What is said of a member's key by somebody
 * else becomes a ceiling (`changes.ts`).
 */
export function editKey(store: KeyStore, which: string, changes: KeyChanges, by: Actor): Promise<EditedKey> {
  return store.changeKeys<EditedKey>(by, ({ keys, teams }) => {
    const found = findKey(keys, which, by.nowMs)
    requireUnrevoked(found)
    requireRevision(by, `The key '${found.name}'`, toKeyFields(found), toKeyFields(found))
    const { name, team, allowedIps, expiresMs } = changes
    if ([name, team, allowedIps, expiresMs].some((change) => change !== undefined)) requireInSight(found)
    const changed = withKeyChanges(found, changes, teams)
    const isOthers = found.ownerId !== null && !store.isOwn
    const key = isOthers ? { ...changed, ceilings: toCeilings(changed, changes) } : changed
    // Whoever has shared a name since before names were unique may go on with it.
    const isNewName = key.name !== found.name || !isLiving(found, by.nowMs)
    const others = keys.filter(({ id }) => id !== key.id)
    if (isNewName && isLiving(key, by.nowMs)) requireFreeName(others, key.name, by.nowMs)
    const difference = toDifference(toKeyFields(found), toKeyFields(key))
    const record = { action: 'keys.edit' as const, subject: key.id, detail: { name: key.name, ...difference } }
    return {
      value: { before: toListed(found, teams, by.nowMs), key: toListed(key, teams, by.nowMs), difference },
      change: difference === null ? null : { ...record, write: { keys: [key] } },
    }
  })
}

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
    const difference = toDifference(
      toShownSecrets(found.secrets, key.secrets),
      toShownSecrets(key.secrets, found.secrets),
    )
    const detail = { name: key.name, key: toMasked(stored.lastFour), ...difference }
    return {
      value: { key: toListed(key, teams, nowMs), secret },
      change: { action: 'keys.rotate' as const, subject: key.id, detail, write: { keys: [key] } },
    }
  })
}

/** Those that are not the same among the others. */
const toShownSecrets = (secrets: readonly StoredSecret[], others: readonly StoredSecret[]) => ({
  secrets: secrets
    .filter(({ hash, expiresMs }) => !others.some((other) => other.hash === hash && other.expiresMs === expiresMs))
    .map(({ lastFour, expiresMs }) => ({ last_four: lastFour, expires_ms: expiresMs })),
})

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

export interface TeamOptions extends TeamChanges {
  name: string
}

/** Creates a team. Throws `invalid` and `team_exists`. */
export function createTeam(store: KeyStore, options: TeamOptions, by: Actor): Promise<StoredTeam> {
  return store.changeKeys(by, ({ teams }) => {
    const made = { ...NEW_TEAM, id: mintId(by.nowMs), name: options.name, createdMs: by.nowMs }
    const team = changed(made, options, teams)
    const detail = { name: team.name, ...toDifference({}, toTeamFields(team)) }
    return {
      value: team,
      change: { action: 'teams.create' as const, subject: team.id, detail, write: { teams: [team] } },
    }
  })
}

export interface EditedTeam {
  before: StoredTeam
  team: StoredTeam
  /** Null where the team was like that already: then nothing was written. */
  difference: Difference | null
}

/**
 * Changes the team that the text means (`find.ts`): its id, what it has spent and its rates of the last minute stay. Throws
 * `invalid`, `team_not_found`, `team_ambiguous`, `team_exists` and `revision_conflict`.
 */
export function editTeam(store: KeyStore, which: string, changes: TeamChanges, by: Actor): Promise<EditedTeam> {
  return store.changeKeys<EditedTeam>(by, ({ teams }) => {
    const before = findTeam(teams, which)
    requireRevision(by, `The team '${before.name}'`, toTeamFields(before), toTeamFields(before))
    const team = changed(before, changes, teams)
    const difference = toDifference(toTeamFields(before), toTeamFields(team))
    const record = { action: 'teams.edit' as const, subject: team.id, detail: { name: team.name, ...difference } }
    return {
      value: { before, team, difference },
      change: difference === null ? null : { ...record, write: { teams: [team] } },
    }
  })
}

export interface ShownTeam {
  team: StoredTeam
  /** All that there ever were and are of it now, oldest first. */
  keys: ListedKey[]
}

/** The team that the text means (`find.ts`), with its keys. Throws `team_not_found`. */
export async function showTeam(store: KeyStore, which: string, nowMs: number): Promise<ShownTeam> {
  const { keys, teams } = await store.readKeys()
  const team = findTeam(teams, which)
  return { team, keys: keys.filter(({ teamId }) => teamId === team.id).map((key) => toListed(key, teams, nowMs)) }
}

/** Lists every team, oldest first. */
export async function listTeams(store: KeyStore): Promise<StoredTeam[]> {
  return (await store.readKeys()).teams
}

/** What commands take for no team. */
const NO_TEAM = 'none'

/** The team as the changes make it. Throws `invalid`, and `team_exists` where another team has its name. */
function changed(before: StoredTeam, changes: TeamChanges, teams: readonly StoredTeam[]): StoredTeam {
  const team = withTeamChanges(before, changes)
  if (team.name === NO_TEAM && !teams.some(({ id, name }) => id === team.id && name === NO_TEAM)) {
    const message = `The field name is invalid: '${NO_TEAM}' is reserved for keys without a team. Choose another name.`
    throw new ServiceError({ kind: 'invalid', field: 'name' }, message)
  }
  const taken = teams.find(({ id, name }) => name === team.name && id !== team.id)
  if (taken === undefined) return team
  const message = `There is a team '${team.name}' already (${toShortId(taken.id)}).`
  throw new ServiceError({ kind: 'team_exists', team: team.name, id: taken.id }, message)
}
