/** Report filters: names of keys, teams, and models to IDs and back, a member's own keys and requests, and the time limit. */

import {
  CORRECTION,
  type Dimension,
  isNamed,
  isTime,
  type NamedDimension,
  type TimeDimension,
} from '../domain/report-filters.ts'
import { ServiceError } from '../domain/service-error.ts'
import { RECORDED_ENDPOINTS } from '../domain/task.ts'
import { findKey, findTeam, isReserved } from '../keys/find.ts'
import type { Configuration, KeyRows } from '../store/config-store.ts'
import type { RequestFilter, UsageCell, UsageFilter } from '../store/report-store.ts'

/** A group by the requested dimensions. Names are current; null if there is none; times in ms. */
export type UsageGroup = Partial<
  Record<NamedDimension, { id: string; name: string | null } | null> &
    Record<TimeDimension, number> &
    Record<Exclude<Dimension, NamedDimension | TimeDimension>, string | null>
>

export type Names = Pick<Configuration, 'keys' | 'teams' | 'aliases'>

/** Throws `key_not_found`, `key_ambiguous`, `team_not_found`, `team_ambiguous`, and `invalid`. */
export function toIds(where: UsageFilter, { keys, teams, aliases }: Names, nowMs: number): UsageFilter {
  return {
    ...where,
    key: (where.key ?? []).map((text) => (isReserved(text) ? text : findKey(keys, text, nowMs).id)),
    team: (where.team ?? []).map((text) => findTeam(teams, text).id),
    model: (where.model ?? []).map((text) => aliases.find(({ alias }) => alias === text)?.model ?? text),
    endpoint: (where.endpoint ?? []).map(toEndpoint),
  }
}

function toEndpoint(text: string): string {
  if (RECORDED_ENDPOINTS.some((name) => name === text)) return text
  const rule = `it must be one of ${RECORDED_ENDPOINTS.join(', ')}`
  throw new ServiceError({ kind: 'invalid', field: 'endpoint' }, `Invalid endpoint: ${rule} (got '${text}').`)
}

const OF_CORRECTIONS = { id: CORRECTION, name: CORRECTION }

export function createNaming(by: readonly Dimension[], { keys, teams }: Names) {
  const namesOf = (rows: readonly { id: string; name: string }[]) => new Map(rows.map(({ id, name }) => [id, name]))
  const known: Record<NamedDimension, Map<string, string>> = {
    key: namesOf([OF_CORRECTIONS, ...keys]),
    team: namesOf(teams),
  }
  const toValue = (dimension: Dimension, value: string | number) => {
    if (isTime(dimension)) return Number(value)
    if (value === '') return null
    return isNamed(dimension) ? { id: String(value), name: known[dimension].get(String(value)) ?? null } : String(value)
  }
  return (of: UsageCell['of']): UsageGroup =>
    Object.assign({}, ...by.map((dimension, i) => ({ [dimension]: toValue(dimension, of[i] ?? '') })))
}

/** Filters of request lists and streams. */
export interface WantedRequests extends Omit<RequestFilter, 'keyId' | 'teamId'> {
  /** A name, digits of an ID, or `system`: requests without a key. */
  key?: string
  team?: string
  /** ID of a user. */
  owner?: string
}

/**
 * Throws `key_not_found`, `key_ambiguous`, `team_not_found`, `team_ambiguous`, and `invalid`.
 *
 * @param rows current keys, teams, and aliases; models are not looked up, since they may be gone.
 */
export function toRequestFilter(
  { key, team, owner, model, endpoint, ...filter }: WantedRequests,
  rows: Pick<Configuration, 'keys' | 'teams' | 'aliases'>,
  nowMs: number,
): RequestFilter {
  return {
    ...filter,
    ...(key === undefined ? {} : { keyId: isReserved(key) ? key : findKey(rows.keys, key, nowMs).id }),
    ...(team === undefined ? {} : { teamId: findTeam(rows.teams, team).id }),
    ...(owner === undefined ? {} : toOwnFilter(toOwnRows(rows, owner))),
    ...(model === undefined ? {} : { model: rows.aliases.find(({ alias }) => alias === model)?.model ?? model }),
    ...(endpoint === undefined ? {} : { endpoint: toEndpoint(endpoint) }),
  }
}

/** A user's own keys, including their playground key, and the teams of these keys. */
export function toOwnRows<Rows extends KeyRows>(rows: Rows, ownerId: string): Rows {
  const keys = rows.keys.filter((key) => key.ownerId === ownerId)
  return { ...rows, keys, teams: rows.teams.filter(({ id }) => keys.some(({ teamId }) => teamId === id)) }
}

/** Limits a filter to these keys. */
export const toOwnFilter = ({ keys }: Pick<KeyRows, 'keys'>) => ({ ownKeys: keys.map(({ id }) => id) })

/** Returns a check to call between pages; it throws `report_too_long` after `limitMs`. @param clock ms. */
export function createLimit(limitMs: number, clock: () => number): () => void {
  const endMs = clock() + limitMs
  return () => {
    if (clock() <= endMs) return
    throw new ServiceError({ kind: 'report_too_long' }, `The report took longer than ${limitMs / 1_000} s.`)
  }
}
