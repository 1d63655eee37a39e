/**
 * What an administrator says of keys and of teams alike, when one is made and later, and how the audit log and JSON name it. A
 * further property of both is a line in each of the four here; what it may be, `rules.ts` says, and how it is typed,
 * `cli/shared-options.ts`. Pure.
 */
import type { Fields } from '../domain/changes.ts'
import { type Budget, type Limits, NO_LIMITS } from '../domain/limits.ts'
import type { Access } from '../domain/snapshot.ts'

/** Null = none. What is left out stays as it is. */
export interface SharedChanges extends Partial<Limits> {
  name?: string
  /** `local`: sees and uses local upstreams only. */
  scope?: Access['scope']
  /** Patterns over slugs; none = every model of the scope. */
  models?: string[]
  budget?: Budget | null
  /** The names given, null = that one is gone (RFC 7396); others stay. */
  metadata?: Record<string, string | null> | null
}

/** What a key and a team both have. */
export interface Shared extends Access {
  name: string
  limits: Limits
  budget: Budget | null
  metadata: Record<string, string>
}

/** What a new one is like where nothing is said. */
export const SHARED_DEFAULTS: Omit<Shared, 'name'> = {
  scope: 'all',
  models: [],
  limits: NO_LIMITS,
  budget: null,
  metadata: {},
}

/** What both have, as the changes make it. */
export function withShared(before: Shared, changes: SharedChanges): Shared {
  const { name, scope, budget, requestsPerMinute, tokensPerMinute, concurrency } = {
    ...before,
    ...before.limits,
    ...changes,
  }
  const { models, metadata } = changes
  return {
    ...{ name, scope, budget, limits: { requestsPerMinute, tokensPerMinute, concurrency } },
    models: models === undefined ? before.models : [...new Set(models)],
    metadata: metadata === null ? {} : merge(before.metadata, metadata ?? {}),
  }
}

const merge = (before: Shared['metadata'], said: Record<string, string | null>) => {
  const merged = Object.entries({ ...before, ...said })
  return Object.fromEntries(merged.filter((pair): pair is [string, string] => pair[1] !== null))
}

/** What may be changed of both, by the names of its columns. */
export const toSharedFields = ({ name, scope, models, limits, budget, metadata }: Shared) =>
  ({
    name,
    scope,
    models,
    rpm: limits.requestsPerMinute,
    tpm: limits.tokensPerMinute,
    concurrency: limits.concurrency,
    budget_nano_usd: budget?.nanoUsd ?? null,
    budget_period: budget?.period ?? null,
    metadata,
  }) satisfies Fields
