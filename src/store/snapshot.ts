/**
 * The immutable in-memory view of the configuration that every request reads: keys by hash, models by slug, and for
 * each model its targets. Built anew after each change of `settings.config_revision` and swapped whole, so no request
 * ever sees half a change, and no request ever waits for the disk to learn who may call what.
 */
import { eq, sql } from 'drizzle-orm'
import type { Feature, Model } from '../wire/model.ts'
import type { PricingItem } from '../wire/usage.ts'
import type { Store } from './open.ts'
import { aliases, keyModels, keySecrets, keys, models, routes, settings, teams, upstreams } from './schema.ts'
import { toSecrets, toTeams } from './snapshot-keys.ts'
import { toModels } from './snapshot-models.ts'
import { toUpstreams } from './snapshot-upstreams.ts'
import type { Budget, Deadlines, Limits, UpstreamOptions } from './types.ts'

export { toVariable } from './snapshot-upstreams.ts'

export interface Key {
  id: string
  name: string
  scope: 'all' | 'local'
  teamId: string | null
  expiresMs: number | null
  revokedMs: number | null
  /** Patterns over resolved slugs; empty = every model. */
  models: string[]
  limits: Limits
  budget: Budget | null
}

/** Keys that share a budget. */
export interface Team {
  id: string
  name: string
  budget: Budget | null
}

/** A secret in force, and the key that it opens. */
export interface Secret {
  key: Key
  lastFour: string
  expiresMs: number | null
}

export interface Upstream {
  id: string
  dialect: string
  baseUrl: string | null
  local: boolean
  deadlines: Deadlines
  /** What its provider allows, all keys together. */
  limits: Limits
  options: UpstreamOptions
  /** The resolved credential; null where the upstream needs none or it did not resolve. */
  credential: string | null
  /** Why this upstream cannot be called, in words for an administrator; null when it can. */
  notReady: string | null
}

/** A route resolved to everything that a call needs. */
export interface Target {
  model: string
  upstream: Upstream
  upstreamModel: string
  priority: number
  weight: number
  /** What a call is charged by: the route's own pricing, else nothing on a local upstream, else the model's. */
  pricing: PricingItem[]
  priceId: string | null
  /** Both as its route says, and never more than its model has. */
  maxOutputLength: number
  contextLength: number
  /** What it does by itself, of what its model does; the gateway adds enforcement where `json_mode` or `structured_outputs` is missing. */
  features: readonly Feature[]
}

/** The facts of a model, as its row tells them, and its enabled targets in order of priority. */
export interface CatalogModel {
  /** Whether lists of models show it; one that a wildcard stands for is only found by its name. */
  listed: boolean
  facts: Omit<Model, 'is_ready' | 'pricing'> & { pricing: PricingItem[] }
  targets: Target[]
}

export interface Snapshot {
  revision: number
  secrets: ReadonlyMap<string, Secret>
  teams: ReadonlyMap<string, Team>
  models: ReadonlyMap<string, CatalogModel>
  aliases: ReadonlyMap<string, string>
  upstreams: ReadonlyMap<string, Upstream>
}

export type Environment = Readonly<Record<string, string | undefined>>

/** Reads the whole configuration in one transaction. `environment` resolves `${NAME}` references. */
export function loadSnapshot(store: Store, environment: Environment): Snapshot {
  return store.transaction((tx) => {
    const revision = tx.select().from(settings).where(eq(settings.key, 'config_revision')).get()
    const places = toUpstreams(tx.select().from(upstreams).all(), environment)
    // By age, so that the same tables give the same order, whatever an index would make of it.
    const routeRows = tx.select().from(routes).orderBy(sql`rowid`).all()
    const aliasRows = tx.select().from(aliases).all()
    return {
      revision: Number(revision?.value ?? 0),
      secrets: toSecrets(
        tx.select().from(keys).all(),
        tx.select().from(keySecrets).all(),
        tx.select().from(keyModels).all(),
      ),
      teams: toTeams(tx.select().from(teams).all()),
      models: toModels(tx.select().from(models).all(), routeRows, places),
      aliases: new Map(aliasRows.map((row) => [row.alias, row.model])),
      upstreams: places,
    }
  })
}
