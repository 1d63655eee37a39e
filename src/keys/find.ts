/** Finds a key or a team by ID, part of an ID, name, or masked secret. */
import { toShortId } from '../domain/id.ts'
import { CORRECTION } from '../domain/report-filters.ts'
import { ServiceError } from '../domain/service-error.ts'
import { toDay } from '../domain/time.ts'
import type { StoredKey, StoredTeam } from '../store/config-store.ts'
import { toMasked } from './token.ts'

/** Shorter parts could soon match another ID. */
const PART_OF_ID = /^[0-9a-f]{6,31}$/

export const isActive = ({ revokedMs, expiresMs }: Pick<StoredKey, 'revokedMs' | 'expiresMs'>, nowMs: number) =>
  revokedMs === null && (expiresMs === null || expiresMs > nowMs)

/** A short ID may be typed only in part. */
const isMeant = (id: string, text: string) =>
  PART_OF_ID.test(text) && (id.endsWith(text) || id.startsWith(text) || toShortId(id).startsWith(text))

export const isNamed = ({ id, name }: { id: string; name: string }, text: string) =>
  name === text || id === text.toLowerCase() || isMeant(id, text.toLowerCase())

/**
 * Finds the only match: an ID, at least six digits from either end of an ID or short ID, a name (of an active key, else
 * of any; hidden ones last), or a masked secret (`sk-tg-…abcd`, or its last four). Throws `key_not_found` and
 * `key_ambiguous`.
 */
export function findKey(keys: readonly StoredKey[], text: string, nowMs: number): StoredKey {
  const id = text.toLowerCase()
  const byId = keys.find((key) => key.id === id)
  if (byId) return byId
  const [, lastFour] = /^(?:sk-tg-)?(?:…|\.\.\.)?([A-Za-z0-9]{4})$/.exec(text) ?? []
  const named = keys.filter(({ name }) => name === text)
  const living = named.filter((key) => isActive(key, nowMs))
  const inSight = living.filter(({ hidden }) => !hidden)
  const byName = [inSight, living, named].find(({ length }) => length > 0) ?? []
  const others = keys.filter((key) => isMeant(key.id, id) || key.secrets.some((secret) => secret.lastFour === lastFour))
  const found = [...new Set([...byName, ...others])]
  const [only] = found
  // The text may be the secret itself, which must not be echoed.
  const key = text.startsWith('sk-tg-') ? toMasked(text.slice(-4)) : text.slice(0, 64)
  if (only === undefined) throw new ServiceError({ kind: 'key_not_found', key }, `There is no key '${key}'.`)
  if (found.length === 1) return only
  const ids = found.slice(0, 5).map((one) => one.id)
  throw new ServiceError({ kind: 'key_ambiguous', key }, `'${key}' matches ${found.length} keys: ${ids.join(', ')}.`)
}

/** Throws `key_revoked`: revoked keys can't be changed. */
export function requireUnrevoked({ id, name, revokedMs }: StoredKey): void {
  if (revokedMs === null) return
  const message = `The key '${name}' (${toShortId(id)}) was revoked on ${toDay(revokedMs)}.`
  throw new ServiceError({ kind: 'key_revoked', key: name, id }, message)
}

/** Throws `key_hidden`: a playground key belongs to its owner and has no secret. */
export function requireVisible({ name, hidden }: StoredKey): void {
  if (!hidden) return
  const message = `'${name}' is a playground key. It has no secret and is revoked when its owner is disabled. You can change only its limits, budget, and models.`
  throw new ServiceError({ kind: 'key_hidden', key: name }, message)
}

/** Filters and reports call requests without a key this. */
export const SYSTEM = 'system'
const RESERVED: ReadonlyMap<string, string> = new Map([
  [SYSTEM, 'requests without a key'],
  [CORRECTION, "corrections from a provider's bill"],
])

export const isReserved = (name: string): boolean => RESERVED.has(name)

/**
 * Throws `key_exists` if an active key has the name, which commands rely on to be unique, and `invalid` for a reserved
 * name.
 */
export function requireFreeName(keys: readonly StoredKey[], name: string, nowMs: number): void {
  if (isReserved(name)) {
    const message = `Invalid name: '${name}' is reserved for ${RESERVED.get(name)}. Choose another name.`
    throw new ServiceError({ kind: 'invalid', field: 'name' }, message)
  }
  const taken = keys.find((key) => !key.hidden && key.name === name && isActive(key, nowMs))
  if (!taken) return
  const message = `A key named '${name}' already exists (${toShortId(taken.id)}).`
  throw new ServiceError({ kind: 'key_exists', key: name, id: taken.id }, message)
}

/**
 * Finds the only match: an ID, at least six digits from either end of an ID or short ID, or a name. Throws
 * `team_not_found` and `team_ambiguous`.
 */
export function findTeam(teams: readonly StoredTeam[], text: string): StoredTeam {
  const id = text.toLowerCase()
  const byId = teams.find((team) => team.id === id)
  if (byId) return byId
  const found = teams.filter((team) => team.name === text || isMeant(team.id, id))
  const [only] = found
  if (only === undefined) throw new ServiceError({ kind: 'team_not_found', team: text }, `There is no team '${text}'.`)
  if (found.length === 1) return only
  const ids = found.slice(0, 5).map((one) => one.id)
  throw new ServiceError(
    { kind: 'team_ambiguous', team: text },
    `'${text}' matches ${found.length} teams: ${ids.join(', ')}.`,
  )
}
