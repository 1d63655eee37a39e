/** By what calls to each model are charged, from the catalogue's rows. Pure. */
import type { ModelPrice } from '../domain/snapshot.ts'
import type { CatalogRows, ModelRow, RouteRow } from './catalog-rows.ts'

/** A route's own price, else nothing on a local upstream, else its model's. */
export function toPrice(route: RouteRow, model: ModelRow, isLocal: boolean): ModelPrice {
  if (route.pricing) return { pricing: route.pricing, priceId: route.priceId }
  return isLocal ? { pricing: [], priceId: null } : { pricing: model.pricing, priceId: model.priceId }
}

/** What models cost at each upstream, by their names there: also those that nobody may ask for now. */
export function toPrices({ upstreams, models, routes }: CatalogRows): Map<string, Map<string, ModelPrice>> {
  const local = new Set(upstreams.flatMap((row) => (row.local ? row.id : [])))
  const rows = new Map(models.map((row) => [row.slug, row]))
  const prices = new Map<string, Map<string, ModelPrice>>()
  for (const route of routes) {
    const model = rows.get(route.model)
    if (!model) continue
    const isLocal = local.has(route.upstream)
    // What nobody knows the price of is not free.
    if (!isLocal && route.pricing === null && model.pricing.length === 0) continue
    const price = toPrice(route, model, isLocal)
    prices.getOrInsertComputed(route.upstream, () => new Map()).getOrInsertComputed(route.upstreamModel, () => price)
  }
  return prices
}

export const NO_PRICES: ReadonlyMap<string, ModelPrice> = new Map()
