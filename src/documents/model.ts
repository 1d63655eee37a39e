/** A model under its columns' names, as `models … --json` prints it and the admin API answers. Pure. */
import type { CatalogModel, Snapshot, Target } from '../domain/snapshot.ts'
import type { PricingItem } from '../domain/usage.ts'
import type { PriceRow } from '../store/catalog-rows.ts'
import type { Configuration } from '../store/config-store.ts'
import { type KnownUpstreams, toReason, toReasons } from './readiness.ts'

/** One model as `models list --json` shows it. */
export interface ShownModel {
  slug: string
  name: string
  owned_by: string
  context_length: number
  max_output_length: number
  input_modalities: string[]
  output_modalities: string[]
  supported_features: string[]
  pricing: PricingItem[]
  listed: boolean
  from_wildcard: boolean
  /** Null where only a running server could tell. */
  is_ready: boolean | null
  /** Why it is not, in words. */
  reason: string | null
  /** In the order of their priority; last, those that are disabled. */
  routes: ShownRoute[]
}

export interface ShownRoute {
  upstream: string
  upstream_model: string
  priority: number
  weight: number
  /** What a call costs; empty = nothing. */
  pricing: PricingItem[]
  /** Whether that is a price of the route's own, and not what its model costs. */
  own_price: boolean
  price_id: string | null
  /** As long as the route allows. */
  context_length: number
  max_output_length: number
  is_ready: boolean | null
  reason: string | null
}

/** A price that a model had on some time, or on one route: `upstream`. */
export interface PriceOfModel {
  id: string
  upstream: string | null
  pricing: PricingItem[]
  created_ms: number
  /** Whether something is charged by it now. */
  in_force: boolean
}

/** The rows that a snapshot leaves out are among them: routes that lead nowhere. */
export type DeclaredRows = Pick<Configuration, 'routes' | 'upstreams'>

export function toModelRows(
  snapshot: Snapshot,
  { routes, upstreams }: DeclaredRows,
  known: KnownUpstreams,
): ShownModel[] {
  const routesOf = Map.groupBy(routes, ({ model }) => model)
  const local = new Set(upstreams.flatMap((row) => (row.local ? row.id : [])))
  return [...snapshot.models.values()]
    .map((model) => {
      const others = (routesOf.get(model.facts.id) ?? []).filter((route) => !leadsTo(route, model))
      return toModelRow(
        model,
        others.map((route) => toDisabled(route, model, local.has(route.upstream))),
        known,
      )
    })
    .sort((a, b) => (a.slug < b.slug ? -1 : 1))
}

const leadsTo = ({ upstream, upstreamModel }: DeclaredRows['routes'][number], { targets }: CatalogModel): boolean =>
  targets.some((target) => target.upstream.id === upstream && target.upstreamModel === upstreamModel)

function toModelRow(model: CatalogModel, disabled: readonly ShownRoute[], known: KnownUpstreams): ShownModel {
  const { facts, listed, fromWildcard, targets } = model
  return {
    slug: facts.id,
    name: facts.name,
    owned_by: facts.owned_by,
    context_length: facts.context_length,
    max_output_length: facts.max_output_length,
    input_modalities: facts.input_modalities,
    output_modalities: facts.output_modalities,
    supported_features: facts.supported_features,
    pricing: facts.pricing,
    listed,
    from_wildcard: fromWildcard,
    ...toReadiness(toReasons(model, known), known),
    routes: [...targets.map((target) => toRoute(target, model, known)), ...disabled],
  }
}

const toReadiness = (reason: string | null, { serves }: KnownUpstreams) => ({
  is_ready: reason !== null ? false : serves ? true : null,
  reason,
})

const toRoute = (target: Target, { facts }: CatalogModel, known: KnownUpstreams): ShownRoute => ({
  upstream: target.upstream.id,
  upstream_model: target.upstreamModel,
  priority: target.priority,
  weight: target.weight,
  pricing: target.pricing,
  own_price: target.pricing.length > 0 && target.pricing !== facts.pricing,
  price_id: target.priceId,
  context_length: target.contextLength,
  max_output_length: target.maxOutputLength,
  ...toReadiness(toReason(target, known), known),
})

/** A route that leads nowhere, since it is disabled or its upstream is. */
function toDisabled(row: DeclaredRows['routes'][number], { facts }: CatalogModel, isLocal: boolean): ShownRoute {
  return {
    upstream: row.upstream,
    upstream_model: row.upstreamModel,
    priority: row.priority,
    weight: row.weight,
    pricing: row.pricing ?? (isLocal ? [] : facts.pricing),
    own_price: row.pricing !== null,
    price_id: row.priceId,
    context_length: row.contextLength ?? facts.context_length,
    max_output_length: row.maxOutputLength ?? facts.max_output_length,
    is_ready: false,
    reason: row.enabled ? 'its upstream is disabled' : 'the route is disabled',
  }
}

/** @param inForce ids of those that something is charged by now. */
export const toPricesOfModel = (rows: readonly PriceRow[], inForce: ReadonlySet<string>): PriceOfModel[] =>
  rows.map(({ id, upstream, pricing, createdMs }) => ({
    id,
    upstream,
    pricing,
    created_ms: createdMs,
    in_force: inForce.has(id),
  }))
