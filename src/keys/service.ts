/**
 * Nothing is ever deleted, since the ledger refers to it. Names are unique among active keys and among teams, so that
 * commands can rely on them.
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
import {
  NEW_KEY,
  NEW_TEAM,
  toCeilings,
  toKeyFields,
  toKeyState,
  toTeamFields,
  withKeyChanges,
  withTeamChanges,
} from './changes.ts'
import type { KeyChanges, TeamChanges } from './definition.ts'
import { findKey, findTeam, isActive, requireFreeName, requireUnrevoked, requireVisible } from './find.ts'
import { mintSecret, toMasked } from './token.ts'

export interface KeyOptions extends KeyChanges {
  name: string
  /** The member who creates it for themselves (`identity/own-keys.ts`). */
  ownerId?: string
}

export interface ListedKey extends StoredKey {
  team: string | null
  status: 'active' | 'revoked' | 'expired'
}

/** The secret can't be shown again. */
export interface CreatedKey {
  key: ListedKey
  secret: string
}

/** Throws `invalid`, `team_not_found`, and `key_exists` if an active key has the name. */
export function createKey(store: KeyStore, options: KeyOptions, by: Actor): Promise<CreatedKey> {
  return store.changeKeys(by, (rows) => {
    requireFreeName(rows.keys, options.name, by.nowMs)
    return decideKey(rows, options, by)
  })
}

/** Returns the secret, or null if any key exists. */
export function createFirstKey(store: KeyStore, options: KeyOptions, by: Actor): Promise<string | null> {
  return store.changeKeys(by, (rows) => {
    if (rows.keys.some(({ hidden }) => !hidden)) return { value: null, change: null }
    const { value, change } = decideKey(rows, options, by)
    return { value: value.secret, change }
  })
}

/** What `createKey` writes and returns, without the check of names. */
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

/** Throws `key_not_found` and `key_ambiguous`. */
export async function showKey(store: KeyStore, which: string, nowMs: number): Promise<ListedKey> {
  const { keys, teams } = await store.readKeys()
  return toListed(findKey(keys, which, nowMs), teams, nowMs)
}

export async function listKeys(store: KeyStore, nowMs: number): Promise<ListedKey[]> {
  return (await listAllKeys(store, nowMs)).filter(({ hidden }) => !hidden)
}

/** Including playground keys. */
export async function listAllKeys(store: KeyStore, nowMs: number): Promise<ListedKey[]> {
  const { keys, teams } = await store.readKeys()
  return keys.map((key) => toListed(key, teams, nowMs))
}

export interface EditedKey {
  before: ListedKey
  key: ListedKey
  /** Null if nothing changed; then nothing was written. */
  difference: Difference | null
}

/**
 * Finds (`find.ts`) and changes a key. An expired key becomes active again if its expiry is moved. Throws `invalid`,
 * `key_not_found`, `key_ambiguous`, `key_revoked`, `team_not_found`, `key_exists` for a name already active,
 * `revision_conflict`, and `key_hidden`. A change of a member's key by someone else becomes a ceiling (`changes.ts`).
 */
export function editKey(store: KeyStore, which: string, changes: KeyChanges, by: Actor): Promise<EditedKey> {
  return store.changeKeys<EditedKey>(by, ({ keys, teams }) => {
    const found = findKey(keys, which, by.nowMs)
    requireUnrevoked(found)
    requireKeyRevision(found, by)
    const { name, team, allowedIps, expiresMs } = changes
    if ([name, team, allowedIps, expiresMs].some((change) => change !== undefined)) requireVisible(found)
    const changed = withKeyChanges(found, changes, teams)
    const isOthers = found.ownerId !== null && !store.isOwn
    const key = isOthers ? { ...changed, ceilings: toCeilings(changed, changes) } : changed
    // Keys that shared a name before names were unique may keep it.
    const isNewName = key.name !== found.name || !isActive(found, by.nowMs)
    const others = keys.filter(({ id }) => id !== key.id)
    if (isNewName && isActive(key, by.nowMs)) requireFreeName(others, key.name, by.nowMs)
    const difference = toDifference(toKeyFields(found), toKeyFields(key))
    const record = { action: 'keys.edit' as const, subject: key.id, detail: { name: key.name, ...difference } }
    return {
      value: { before: toListed(found, teams, by.nowMs), key: toListed(key, teams, by.nowMs), difference },
      change: difference === null ? null : { ...record, write: { keys: [key] } },
    }
  })
}

const requireKeyRevision = (found: StoredKey, by: Actor) =>
  requireRevision(by, `The key '${found.name}'`, toKeyState(found), toKeyFields(found))

/** How long the old secret keeps working by default. */
export const DEFAULT_OVERLAP_MS = DAY_MS

/** For longer, use two keys. */
export const OVERLAP_MS = { min: 0, max: 365 * DAY_MS }

/** How long an expired secret is still recognized in errors. */
const REMEMBERED_MS = 90 * DAY_MS

/**
 * Gives a key (`find.ts`) a new secret. All others expire after the overlap, or earlier if already set; an overlap of 0
 * leaves only the new one. Throws `invalid`, `key_not_found`, `key_ambiguous`, `key_hidden`, `key_revoked`,
 * `key_expired`, and `revision_conflict`.
 */
export function rotateKey(store: KeyStore, which: string, overlapMs: number, by: Actor): Promise<CreatedKey> {
  return store.changeKeys(by, ({ keys, teams }) => {
    const { nowMs } = by
    if (!Number.isInteger(overlapMs) || overlapMs < OVERLAP_MS.min || overlapMs > OVERLAP_MS.max)
      throw new ServiceError({ kind: 'invalid', field: 'overlapMs' }, 'Invalid overlap: must be 0 to 365 days.')
    const found = findKey(keys, which, nowMs)
    requireVisible(found)
    requireUnrevoked(found)
    if (!isActive(found, nowMs))
      throw new ServiceError({ kind: 'key_expired', key: found.name }, `The key '${found.name}' has expired.`)
    requireKeyRevision(found, by)
    const { secret, stored } = mintSecret(nowMs)
    const before = found.secrets
      .map((one) => ({ ...one, expiresMs: Math.min(one.expiresMs ?? Number.POSITIVE_INFINITY, nowMs + overlapMs) }))
      .filter(({ expiresMs }) => expiresMs > nowMs - REMEMBERED_MS)
    // Keeps the newest last even if the clock was set back.
    const createdMs = Math.max(nowMs, found.secrets.at(-1)?.createdMs ?? nowMs)
    const key = { ...found, secrets: [...before, { ...stored, createdMs }] }
    const detail = { name: key.name, key: toMasked(stored.lastFour), ...toSecretsDifference(found, key) }
    return {
      value: { key: toListed(key, teams, nowMs), secret },
      change: { action: 'keys.rotate' as const, subject: key.id, detail, write: { keys: [key] } },
    }
  })
}

/**
 * Ends all secrets of a key (`find.ts`) except the newest, which stay valid for a while after a rotation. If there are none, that is no
 * error. Throws `key_not_found`, `key_ambiguous`, `key_hidden`, `key_revoked`, and `revision_conflict`.
 *
 * @returns the key, and the number of ended secrets
 */
export function endOverlap(store: KeyStore, which: string, by: Actor): Promise<{ key: ListedKey; ended: number }> {
  return store.changeKeys(by, ({ keys, teams }) => {
    const found = findKey(keys, which, by.nowMs)
    requireVisible(found)
    requireUnrevoked(found)
    requireKeyRevision(found, by)
    const isOver = ({ expiresMs }: StoredSecret) => expiresMs !== null && expiresMs <= by.nowMs
    const secrets = found.secrets.map((one, at) =>
      at === found.secrets.length - 1 || isOver(one) ? one : { ...one, expiresMs: by.nowMs },
    )
    const ended = secrets.filter((one, at) => one !== found.secrets[at]).length
    const key = { ...found, secrets }
    const detail = { name: key.name, ...toSecretsDifference(found, key) }
    const record = { action: 'keys.end_overlap' as const, subject: key.id, detail }
    return {
      value: { key: toListed(key, teams, by.nowMs), ended },
      change: ended === 0 ? null : { ...record, write: { keys: [key] } },
    }
  })
}

const toSecretsDifference = (before: StoredKey, after: StoredKey) =>
  toDifference(toShownSecrets(before.secrets, after.secrets), toShownSecrets(after.secrets, before.secrets))

/** Without those that have an equal in `others`. */
const toShownSecrets = (secrets: readonly StoredSecret[], others: readonly StoredSecret[]) => ({
  secrets: secrets
    .filter(({ hash, expiresMs }) => !others.some((other) => other.hash === hash && other.expiresMs === expiresMs))
    .map(({ lastFour, expiresMs }) => ({ last_four: lastFour, expires_ms: expiresMs })),
})

/**
 * Revokes a key (`find.ts`) with all its secrets; doing so twice is no error. Throws `key_not_found`, `key_ambiguous`,
 * and `key_hidden`.
 */
export function revokeKey(
  store: KeyStore,
  which: string,
  by: Actor,
): Promise<{ key: ListedKey; alreadyRevoked: boolean }> {
  return store.changeKeys(by, ({ keys, teams }) => {
    const found = findKey(keys, which, by.nowMs)
    requireVisible(found)
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

export function toListed(key: StoredKey, teams: readonly StoredTeam[], nowMs: number): ListedKey {
  return {
    ...key,
    team: teams.find(({ id }) => id === key.teamId)?.name ?? null,
    status: key.revokedMs !== null ? 'revoked' : isActive(key, nowMs) ? 'active' : 'expired',
  }
}

export interface TeamOptions extends TeamChanges {
  name: string
}

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
  /** Null if nothing changed; then nothing was written. */
  difference: Difference | null
}

/**
 * Finds (`find.ts`) and changes a team; its ID, spend, and current rates stay. Throws `invalid`, `team_not_found`,
 * `team_ambiguous`, `team_exists`, and `revision_conflict`.
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
  /** Past and present keys, oldest first. */
  keys: ListedKey[]
}

/** Throws `team_not_found`. */
export async function showTeam(store: KeyStore, which: string, nowMs: number): Promise<ShownTeam> {
  const { keys, teams } = await store.readKeys()
  const team = findTeam(teams, which)
  return { team, keys: keys.filter(({ teamId }) => teamId === team.id).map((key) => toListed(key, teams, nowMs)) }
}

export async function listTeams(store: KeyStore): Promise<StoredTeam[]> {
  return (await store.readKeys()).teams
}

/** Means "no team" in commands. */
const NO_TEAM = 'none'

/** Throws `invalid`, and `team_exists` if another team has the name. */
function changed(before: StoredTeam, changes: TeamChanges, teams: readonly StoredTeam[]): StoredTeam {
  const team = withTeamChanges(before, changes)
  if (team.name === NO_TEAM && !teams.some(({ id, name }) => id === team.id && name === NO_TEAM)) {
    const message = `Invalid name: '${NO_TEAM}' is reserved for keys without a team. Choose another name.`
    throw new ServiceError({ kind: 'invalid', field: 'name' }, message)
  }
  const taken = teams.find(({ id, name }) => name === team.name && id !== team.id)
  if (taken === undefined) return team
  const message = `A team named '${team.name}' already exists (${toShortId(taken.id)}).`
  throw new ServiceError({ kind: 'team_exists', team: team.name, id: taken.id }, message)
}
