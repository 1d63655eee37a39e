/**
 * What an administrator says of a key, when it is made and later, and how the audit log and JSON name it. A further property of
 * keys is a line in each of the three here; what it may be, `rules.ts` says, and how it is typed, `cli/key-options.ts`. Pure.
 */
import type { Fields } from '../domain/difference.ts'
import { type Budget, type Limits, NO_LIMITS } from '../domain/settings.ts'
import type { StoredKey, StoredTeam } from '../store/config-store.ts'
import { findTeam } from './find.ts'
import { toAllowedIps } from './rules.ts'

/** Null = none. What is left out stays as it is. */
export interface KeyChanges extends Partial<Limits> {
  name?: string
  /** `local`: sees and uses local upstreams only. */
  scope?: 'all' | 'local'
  /** Patterns over slugs; none = every model of the scope. */
  models?: string[]
  /** Addresses and ranges; none = from everywhere. */
  allowedIps?: string[]
  /** A team's id or name. */
  team?: string | null
  expiresMs?: number | null
  budget?: Budget | null
  /** The names given, null = that one is gone (RFC 7396); others stay. */
  metadata?: Record<string, string | null> | null
}

/** What a new key is like where nothing is said. */
export const DEFAULTS: Omit<StoredKey, 'id' | 'name' | 'createdMs' | 'secrets'> = {
  scope: 'all',
  models: [],
  allowedIps: [],
  teamId: null,
  expiresMs: null,
  revokedMs: null,
  limits: NO_LIMITS,
  budget: null,
  metadata: {},
}

/** The key as the changes make it. Throws `team_not_found`, and `invalid` for addresses that are none. */
export function withChanges(key: StoredKey, changes: KeyChanges, teams: readonly StoredTeam[]): StoredKey {
  const { limits, ...kept } = key
  const { team, models, allowedIps, metadata, ...said } = changes
  const { requestsPerMinute, tokensPerMinute, concurrency, ...rest } = { ...kept, ...limits, ...said }
  return {
    ...rest,
    limits: { requestsPerMinute, tokensPerMinute, concurrency },
    models: models === undefined ? key.models : [...new Set(models)],
    allowedIps: allowedIps === undefined ? key.allowedIps : toAllowedIps(allowedIps),
    teamId: team === undefined ? key.teamId : team === null ? null : findTeam(teams, team).id,
    metadata: metadata === null ? {} : merge(key.metadata, metadata ?? {}),
  }
}

const merge = (before: StoredKey['metadata'], said: Record<string, string | null>) => {
  const merged = Object.entries({ ...before, ...said })
  return Object.fromEntries(merged.filter((pair): pair is [string, string] => pair[1] !== null))
}

/** What may be changed of a key, by the names of its columns. */
export const toFields = (key: StoredKey) =>
  ({
    name: key.name,
    scope: key.scope,
    models: key.models,
    allowed_ips: key.allowedIps,
    team_id: key.teamId,
    rpm: key.limits.requestsPerMinute,
    tpm: key.limits.tokensPerMinute,
    concurrency: key.limits.concurrency,
    budget_nano_usd: key.budget?.nanoUsd ?? null,
    budget_period: key.budget?.period ?? null,
    expires_ms: key.expiresMs,
    metadata: key.metadata,
  }) satisfies Fields
