/**
 * The immutable in-memory view of the configuration that every request reads: keys by hash, models by slug, and for
 * each model its targets. Built anew after each change of `settings.config_revision` and swapped whole, so no request
 * ever sees half a change, and no request ever waits for the disk to learn who may call what.
 */
import { eq } from 'drizzle-orm'
import type { Feature, Model } from '../wire/model.ts'
import type { PricingItem } from '../wire/usage.ts'
import type { Store } from './open.ts'
import { aliases, keyModels, keySecrets, keys, models, routes, settings, upstreams } from './schema.ts'
import {
  DEFAULT_DEADLINES,
  DEFAULT_OPTIONS,
  type Deadlines,
  LOCAL_HEADERS_MS,
  LOCAL_OPTIONS,
  type Period,
  type UpstreamOptions,
} from './types.ts'

export interface Key {
  id: string
  name: string
  scope: 'all' | 'local'
  teamId: string | null
  expiresMs: number | null
  revokedMs: number | null
  /** Patterns over resolved slugs; empty = every model. */
  models: string[]
  limits: {
    requestsPerMinute: number | null
    tokensPerMinute: number | null
    concurrency: number | null
  }
  budget: { nanoUsd: number; period: Period } | null
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
  maxOutputLength: number
  contextLength: number
  /** What it does by itself; the gateway adds enforcement where `json_mode` or `structured_outputs` is missing. */
  features: readonly Feature[]
}

/** The facts of a model, as its row tells them, and its enabled targets in order of priority. */
export interface CatalogModel {
  facts: Omit<Model, 'is_ready' | 'pricing'> & { pricing: PricingItem[] }
  targets: Target[]
}

export interface Snapshot {
  revision: number
  secrets: ReadonlyMap<string, Secret>
  models: ReadonlyMap<string, CatalogModel>
  aliases: ReadonlyMap<string, string>
  upstreams: ReadonlyMap<string, Upstream>
}

export type Environment = Readonly<Record<string, string | undefined>>

/** Reads the whole configuration in one transaction. `environment` resolves `${NAME}` references. */
export function loadSnapshot(store: Store, environment: Environment): Snapshot {
  return store.transaction((tx) => {
    const revision = tx.select().from(settings).where(eq(settings.key, 'config_revision')).get()
    const places = new Map(
      tx
        .select()
        .from(upstreams)
        .all()
        .filter((row) => row.enabled)
        .map((row) => [row.id, toUpstream(row, environment)]),
    )
    return {
      revision: Number(revision?.value ?? 0),
      secrets: toSecrets(
        tx.select().from(keys).all(),
        tx.select().from(keySecrets).all(),
        tx.select().from(keyModels).all(),
      ),
      models: toModels(tx.select().from(models).all(), tx.select().from(routes).all(), places),
      aliases: new Map(
        tx
          .select()
          .from(aliases)
          .all()
          .map((row) => [row.alias, row.model]),
      ),
      upstreams: places,
    }
  })
}

const REFERENCE = /^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$/

/** The variable's name in a reference such as `${OPENAI_API_KEY}`, or null where the text is no reference. */
export function toVariable(reference: string): string | null {
  return REFERENCE.exec(reference)?.[1] ?? null
}

function toUpstream(row: typeof upstreams.$inferSelect, environment: Environment): Upstream {
  const variable = row.apiKeyRef === null ? null : toVariable(row.apiKeyRef)
  const credential = variable === null ? null : environment[variable] || null
  return {
    id: row.id,
    dialect: row.dialect,
    baseUrl: row.baseUrl,
    local: row.local,
    deadlines: {
      ...DEFAULT_DEADLINES,
      ...(row.local ? { headers: LOCAL_HEADERS_MS } : {}),
      ...row.deadlines,
    },
    // The demo model is local and reached without an address: it needs no allowances.
    options: { ...(row.local && row.baseUrl !== null ? LOCAL_OPTIONS : DEFAULT_OPTIONS), ...row.options },
    credential,
    notReady: variable !== null && credential === null ? `the variable ${variable} is not set on the server` : null,
  }
}

function toSecrets(
  keyRows: (typeof keys.$inferSelect)[],
  secretRows: (typeof keySecrets.$inferSelect)[],
  patternRows: (typeof keyModels.$inferSelect)[],
): Map<string, Secret> {
  const byId = new Map<string, Key>()
  for (const row of keyRows) {
    byId.set(row.id, {
      id: row.id,
      name: row.name,
      scope: row.scope,
      teamId: row.teamId,
      expiresMs: row.expiresMs,
      revokedMs: row.revokedMs,
      models: [],
      limits: {
        requestsPerMinute: row.requestsPerMinute,
        tokensPerMinute: row.tokensPerMinute,
        concurrency: row.concurrency,
      },
      budget: row.budgetNanoUsd === null ? null : { nanoUsd: row.budgetNanoUsd, period: row.budgetPeriod ?? 'total' },
    })
  }
  for (const row of patternRows) byId.get(row.keyId)?.models.push(row.pattern)
  const secrets = new Map<string, Secret>()
  for (const row of secretRows) {
    const key = byId.get(row.keyId)
    if (key)
      secrets.set(row.hash, {
        key,
        lastFour: row.lastFour,
        expiresMs: row.expiresMs,
      })
  }
  return secrets
}

function toModels(
  modelRows: (typeof models.$inferSelect)[],
  routeRows: (typeof routes.$inferSelect)[],
  places: ReadonlyMap<string, Upstream>,
): Map<string, CatalogModel> {
  const bySlug = new Map<string, CatalogModel>()
  const priceIds = new Map<string, string | null>()
  for (const row of modelRows.filter((model) => model.enabled)) {
    priceIds.set(row.slug, row.priceId)
    bySlug.set(row.slug, {
      facts: {
        id: row.slug,
        object: 'model',
        owned_by: row.ownedBy,
        created: Math.floor(row.createdMs / 1000),
        name: row.name,
        context_length: row.contextLength,
        max_output_length: row.maxOutputLength,
        input_modalities: row.inputModalities,
        output_modalities: row.outputModalities,
        supported_features: row.supportedFeatures,
        pricing: row.pricing,
      },
      targets: [],
    })
  }
  for (const row of routeRows) {
    const model = bySlug.get(row.model)
    const upstream = places.get(row.upstream)
    if (!row.enabled || !model || !upstream) continue
    const modelPays = !row.pricing && !upstream.local
    model.targets.push({
      model: row.model,
      upstream,
      upstreamModel: row.upstreamModel,
      priority: row.priority,
      weight: row.weight,
      pricing: row.pricing ?? (modelPays ? model.facts.pricing : []),
      priceId: row.pricing ? row.priceId : modelPays ? (priceIds.get(row.model) ?? null) : null,
      maxOutputLength: model.facts.max_output_length,
      contextLength: model.facts.context_length,
      features: model.facts.supported_features,
    })
  }
  for (const model of bySlug.values()) model.targets.sort((a, b) => a.priority - b.priority)
  return bySlug
}
