/** A model under its columns' names, as `models … --json` prints it and the admin API answers. Pure. */

import { toRevision } from '../domain/changes.ts'
import type { ServedFigures, ServerState } from '../domain/model-server.ts'
import type { CatalogModel, Target } from '../domain/snapshot.ts'
import type { PricingItem } from '../domain/usage.ts'
import type { CatalogRows, ModelRow, PriceRow, RouteRow } from '../store/catalog-rows.ts'
import { toCatalog } from '../store/snapshot.ts'
import { type KnownUpstreams, toReason, toReasons } from './readiness.ts'

/** One model as `models list --json` shows it. */
export interface ShownModel {
  slug: string
  /** Of the model without its routes. */
  revision: string
  name: string
  owned_by: string
  context_length: number
  max_output_length: number
  input_modalities: string[]
  output_modalities: string[]
  supported_features: string[]
  pricing: PricingItem[]
  enabled: boolean
  listed: boolean
  from_wildcard: boolean
  /** Who wins over whom: `builtin`, `discovered`, `file`, `admin`. */
  origin: string
  /** Null where only a running server could tell. */
  is_ready: boolean | null
  /** Why it is not, in words. */
  reason: string | null
  /** In the order of their priority; last, those that are disabled. */
  routes: ShownRoute[]
}

export interface ShownRoute {
  revision: string
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
  supported_features: string[]
  /** How its model thinks there, and what it takes, as it is said of the route; null where nothing is. */
  thinking: string | null
  efforts: string[] | null
  thinking_off: boolean | null
  thinking_unasked: boolean | null
  sampling: boolean | null
  enabled: boolean
  origin: string
  is_ready: boolean | null
  reason: string | null
  /** What a running server knows of the model there; null where that is nothing, or its upstream is not local. */
  served: (ServedFigures & { state: ServerState | null }) | null
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

/** Every model, those that are disabled included, in the order of their names. */
export function toModelDocuments(rows: CatalogRows, known: KnownUpstreams): ShownModel[] {
  const models = new Map(rows.models.map((row) => [row.slug, row]))
  const routesOf = Map.groupBy(rows.routes, ({ model }) => model)
  const local = new Set(rows.upstreams.flatMap((row) => (row.local ? row.id : [])))
  const all = rows.models.map((row) => ({ ...row, enabled: true }))
  const documents = [...toCatalog({ ...rows, models: all }, {}).models.values()].flatMap((model) => {
    const row = models.get(model.facts.id)
    const routes = routesOf.get(model.facts.id) ?? []
    return row ? toModelDocument(model, row, routes, local, known) : []
  })
  return documents.sort((a, b) => (a.slug < b.slug ? -1 : 1))
}

function toModelDocument(
  model: CatalogModel,
  row: ModelRow,
  routes: readonly RouteRow[],
  local: ReadonlySet<string>,
  known: KnownUpstreams,
): ShownModel {
  const { enabled, origin } = row
  const { facts, listed, fromWildcard, targets } = model
  const shown = targets.flatMap((target) => {
    const route = routes.find((one) => leadsTo(one, target))
    return route ? toRoute(route, target, known) : []
  })
  const others = routes.filter((route) => !targets.some((target) => leadsTo(route, target)))
  return {
    slug: facts.id,
    revision: toRevision(row),
    name: facts.name,
    owned_by: facts.owned_by,
    context_length: facts.context_length,
    max_output_length: facts.max_output_length,
    input_modalities: facts.input_modalities,
    output_modalities: facts.output_modalities,
    supported_features: facts.supported_features,
    pricing: facts.pricing,
    enabled,
    listed,
    from_wildcard: fromWildcard,
    origin,
    ...toReadiness(enabled ? toReasons(model, known) : facts.pricing.length > 0 ? 'it is disabled' : UNPRICED, known),
    routes: [...shown, ...others.map((route) => toDisabled(route, model, local.has(route.upstream)))],
  }
}

/** Why a model is disabled that costs nobody knows what. */
const UNPRICED = 'unpriced: it is disabled until it has a price'

const leadsTo = ({ upstream, upstreamModel }: RouteRow, target: Target): boolean =>
  target.upstream.id === upstream && target.upstreamModel === upstreamModel

const toReadiness = (reason: string | null, { serves }: KnownUpstreams) => ({
  is_ready: reason !== null ? false : serves ? true : null,
  reason,
})

/** As it is said of a route. */
const toThinking = ({ options }: RouteRow) => ({
  thinking: options.thinking ?? null,
  efforts: options.efforts ?? null,
  thinking_off: options.thinking_off ?? null,
  thinking_unasked: options.thinking_unasked ?? null,
  sampling: options.sampling ?? null,
})

const toRoute = (row: RouteRow, target: Target, known: KnownUpstreams): ShownRoute => ({
  revision: toRevision(row),
  upstream: target.upstream.id,
  upstream_model: target.upstreamModel,
  priority: target.priority,
  weight: target.weight,
  pricing: target.pricing,
  own_price: row.pricing !== null,
  price_id: target.priceId,
  context_length: target.contextLength,
  max_output_length: target.maxOutputLength,
  supported_features: [...target.features],
  ...toThinking(row),
  enabled: row.enabled,
  origin: row.origin,
  ...toReadiness(toReason(target, known), known),
  served: toServed(target, known),
})

function toServed({ upstream, upstreamModel }: Target, { upstreams }: KnownUpstreams): ShownRoute['served'] {
  const row = upstreams.get(upstream.id)
  const found = row?.served.find(({ upstream_model: name }) => name === upstreamModel)
  if (!row || !found) return null
  const { upstream_model: _, ...figures } = found
  return { state: row.process?.state ?? null, ...figures }
}

/** A route that leads nowhere, since it is disabled or its upstream is. */
function toDisabled(row: RouteRow, { facts }: CatalogModel, isLocal: boolean): ShownRoute {
  return {
    revision: toRevision(row),
    upstream: row.upstream,
    upstream_model: row.upstreamModel,
    priority: row.priority,
    weight: row.weight,
    pricing: row.pricing ?? (isLocal ? [] : facts.pricing),
    own_price: row.pricing !== null,
    price_id: row.priceId,
    context_length: row.contextLength ?? facts.context_length,
    max_output_length: row.maxOutputLength ?? facts.max_output_length,
    supported_features: row.supportedFeatures ?? facts.supported_features,
    ...toThinking(row),
    enabled: row.enabled,
    origin: row.origin,
    is_ready: false,
    reason: row.enabled ? (facts.pricing.length > 0 ? 'its upstream is disabled' : UNPRICED) : 'the route is disabled',
    served: null,
  }
}

/** A model with every price that it had. A price may be in force that none of its routes is charged by: lists show it. */
export function toShownModel(shown: ShownModel, rows: CatalogRows, priceRows: readonly PriceRow[]) {
  const { slug, routes } = shown
  const model = rows.models.find((row) => row.slug === slug)
  const inForce = new Set([model?.priceId, ...routes.map(({ price_id: id }) => id)])
  const prices: PriceOfModel[] = priceRows.map(({ id, upstream, pricing, createdMs }) => ({
    ...{ id, upstream, pricing, created_ms: createdMs },
    in_force: inForce.has(id),
  }))
  const aliases = rows.aliases.filter(({ model: of }) => of === slug).map(({ alias }) => alias)
  return { ...shown, aliases, prices }
}

export const toAliasDocuments = ({ aliases }: Pick<CatalogRows, 'aliases'>) =>
  aliases.map(({ alias, model, listed }) => ({ alias, model, listed }))
