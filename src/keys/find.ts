/** Finds the key or the team that somebody means, by its id or a part of it, by its name, or by what is shown of a secret. Pure. */
import { toShortId } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { StoredKey, StoredTeam } from '../store/config-store.ts'
import { toMasked } from './token.ts'

/** Fewer digits of an id could soon mean another one. */
const PART_OF_ID = /^[0-9a-f]{6,31}$/

/** Whether a key lets requests in, as far as time goes. */
export const isLiving = ({ revokedMs, expiresMs }: Pick<StoredKey, 'revokedMs' | 'expiresMs'>, nowMs: number) =>
  revokedMs === null && (expiresMs === null || expiresMs > nowMs)

/** Whoever does not copy the whole of a short id types its beginning. */
const isMeant = (id: string, text: string) =>
  PART_OF_ID.test(text) && (id.endsWith(text) || id.startsWith(text) || toShortId(id).startsWith(text))

/** Whether a name, an id or a part of one may mean it. */
export const isNamed = ({ id, name }: { id: string; name: string }, text: string) =>
  name === text || id === text.toLowerCase() || isMeant(id, text.toLowerCase())

/**
 * The only key that the text may mean: an id, at least six digits from either end of one or of a short id, a name (of a key that is neither
 * revoked nor expired, else of any; a hidden one comes last), or what is shown of the secret (`sk-tg-…abcd`, or its last four). Throws `key_not_found`
 * and `key_ambiguous`.
 */
export function findKey(keys: readonly StoredKey[], text: string, nowMs: number): StoredKey {
  const id = text.toLowerCase()
  const byId = keys.find((key) => key.id === id)
  if (byId) return byId
  const [, lastFour] = /^(?:sk-tg-)?(?:…|\.\.\.)?([A-Za-z0-9]{4})$/.exec(text) ?? []
  const named = keys.filter(({ name }) => name === text)
  const living = named.filter((key) => isLiving(key, nowMs))
  const inSight = living.filter(({ hidden }) => !hidden)
  const byName = [inSight, living, named].find(({ length }) => length > 0) ?? []
  const others = keys.filter((key) => isMeant(key.id, id) || key.secrets.some((secret) => secret.lastFour === lastFour))
  const found = [...new Set([...byName, ...others])]
  const [only] = found
  // Somebody may have pasted the secret itself.
  const key = text.startsWith('sk-tg-') ? toMasked(text.slice(-4)) : text.slice(0, 64)
  if (only === undefined) throw new ServiceError({ kind: 'key_not_found', key }, `There is no key '${key}'.`)
  if (found.length === 1) return only
  const ids = found.slice(0, 5).map((one) => one.id)
  throw new ServiceError({ kind: 'key_ambiguous', key }, `'${key}' may mean ${found.length} keys: ${ids.join(', ')}.`)
}

/** Throws `key_revoked`: a key that was revoked stays as it was. */
export function requireUnrevoked({ id, name, revokedMs }: StoredKey): void {
  if (revokedMs === null) return
  const message = `The key '${name}' (${toShortId(id)}) was revoked on ${new Date(revokedMs).toISOString()}.`
  throw new ServiceError({ kind: 'key_revoked', key: name, id }, message)
}

/** Throws `key_hidden`: what a playground is metered by is its owner's as long as they may sign in, and opens nothing. */
export function requireInSight({ name, hidden }: StoredKey): void {
  if (!hidden) return
  const message = `'${name}' is what a playground is metered by. It has no secret and ends when its owner is disabled; only its limits, its budget and its models can be changed.`
  throw new ServiceError({ kind: 'key_hidden', key: name }, message)
}

/** What filters and reports call requests that were made without a key. */
export const SYSTEM = 'system'

/**
 * Throws `key_exists` where a key in force has the name: names are unique among those, so that a command may go by them. Throws `invalid` for
 * a reserved name.
 */
export function requireFreeName(keys: readonly StoredKey[], name: string, nowMs: number): void {
  if (name === SYSTEM) {
    const message = `The field name is invalid: '${SYSTEM}' is reserved for requests without a key. Choose another name.`
    throw new ServiceError({ kind: 'invalid', field: 'name' }, message)
  }
  const taken = keys.find((key) => !key.hidden && key.name === name && isLiving(key, nowMs))
  if (!taken) return
  const message = `There is a key '${name}' already (${toShortId(taken.id)}).`
  throw new ServiceError({ kind: 'key_exists', key: name, id: taken.id }, message)
}

/**
 * The only team that the text may mean: an id, at least six digits from either end of one or of a short id, or a name. Throws
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
    `'${text}' may mean ${found.length} teams: ${ids.join(', ')}.`,
  )
}
