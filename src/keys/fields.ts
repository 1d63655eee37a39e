/**
 * What an administrator says of a key, beside what keys have in common with teams (`shared-fields.ts`). A further property of
 * keys is a line in each of the four here; what it may be, `rules.ts` says, and how it is typed, `cli/key-options.ts`. Pure.
 */
import type { Fields } from '../domain/changes.ts'
import type { StoredKey, StoredTeam } from '../store/config-store.ts'
import { findTeam } from './find.ts'
import { toAllowedIps } from './rules.ts'
import { SHARED_DEFAULTS, type SharedChanges, toSharedFields, withShared } from './shared-fields.ts'

export interface KeyChanges extends SharedChanges {
  /** Addresses and ranges; none = from everywhere. */
  allowedIps?: string[]
  /** A team's id or name. */
  team?: string | null
  expiresMs?: number | null
}

/** What a new key is like where nothing is said. */
export const DEFAULTS: Omit<StoredKey, 'id' | 'name' | 'createdMs' | 'secrets'> = {
  ...SHARED_DEFAULTS,
  allowedIps: [],
  ceilings: {},
  teamId: null,
  ownerId: null,
  hidden: false,
  expiresMs: null,
  revokedMs: null,
}

/** The key as the changes make it. Throws `team_not_found`, `team_ambiguous`, and `invalid` for addresses that are none. */
export function withChanges(key: StoredKey, changes: KeyChanges, teams: readonly StoredTeam[]): StoredKey {
  const { team, allowedIps, expiresMs } = changes
  return {
    ...key,
    ...withShared(key, changes),
    allowedIps: allowedIps === undefined ? key.allowedIps : toAllowedIps(allowedIps),
    teamId: team === undefined ? key.teamId : team === null ? null : findTeam(teams, team).id,
    expiresMs: expiresMs === undefined ? key.expiresMs : expiresMs,
  }
}

/** What may be changed of a key, by the names of its columns. */
export const toFields = (key: StoredKey) =>
  ({
    ...toSharedFields(key),
    allowed_ips: key.allowedIps,
    team_id: key.teamId,
    expires_ms: key.expiresMs,
    ceilings: key.ceilings,
  }) satisfies Fields
