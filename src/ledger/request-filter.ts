/** From what people call keys, teams and models to which requests are wanted. Pure. */
import { findKey, findTeam, SYSTEM } from '../keys/find.ts'
import type { Configuration } from '../store/config-store.ts'
import type { RequestFilter } from '../store/request-store.ts'

/** As a list and those who follow are asked for. */
export interface WantedRequests extends Omit<RequestFilter, 'keyId' | 'teamId'> {
  /** A name, digits of an id, or `system`: whoever asked without a key. */
  key?: string
  team?: string
}

/**
 * Throws `key_not_found`, `key_ambiguous`, `team_not_found` and `team_ambiguous`.
 *
 * @param rows that keys, teams and aliases are looked for in. What a model was called then is what counts, and it may be gone: it
 *   is not looked for.
 */
export function toRequestFilter(
  { key, team, model, ...filter }: WantedRequests,
  rows: Pick<Configuration, 'keys' | 'teams' | 'aliases'>,
  nowMs: number,
): RequestFilter {
  return {
    ...filter,
    ...(key === undefined ? {} : { keyId: key === SYSTEM ? SYSTEM : findKey(rows.keys, key, nowMs).id }),
    ...(team === undefined ? {} : { teamId: findTeam(rows.teams, team).id }),
    ...(model === undefined ? {} : { model: rows.aliases.find(({ alias }) => alias === model)?.model ?? model }),
  }
}
