/**
 * The rows that a catalogue asks for, seen beside the rows that there are: what an operator or an earlier catalogue has
 * set otherwise (times, prices already on record) carries over. Called by `plan.ts`. Pure.
 */
import type { Origin } from '../domain/settings.ts'
import type { PricingItem } from '../domain/usage.ts'
import type { CatalogRows, PriceRow } from '../store/config-store.ts'
import type { Catalog } from './catalog.ts'

export interface RowOptions {
  /** The origin that the rows get. */
  origin: Origin
  nowMs: number
  mintId(): string
}

export const toRouteKey = (row: { model: string; upstream: string; upstreamModel: string }) =>
  `models.${row.model}: route ${row.upstream} (${row.upstreamModel})`

/**
 * Converts a catalogue to rows. Prices are only ever added: an unchanged price keeps its row, and `prices` has a new
 * one for each that changed.
 */
export function toRows(
  catalog: Catalog,
  current: CatalogRows,
  { origin, nowMs, mintId }: RowOptions,
): { rows: CatalogRows; prices: PriceRow[] } {
  const prices: PriceRow[] = []
  const upstreamsById = new Map(current.upstreams.map((row) => [row.id, row]))
  const modelsBySlug = new Map(current.models.map((row) => [row.slug, row]))
  const routesByKey = new Map(current.routes.map((row) => [toRouteKey(row), row]))

  const priceFor = (
    before: { pricing: PricingItem[] | null; priceId: string | null } | undefined,
    price: { model: string; upstream: string | null; pricing: PricingItem[] },
  ): string => {
    if (before?.priceId && Bun.deepEquals(before.pricing, price.pricing)) return before.priceId
    const row = { ...price, id: mintId(), createdMs: nowMs }
    prices.push(row)
    return row.id
  }

  const rows: CatalogRows = {
    upstreams: catalog.upstreams.map((upstream) => {
      const before = upstreamsById.get(upstream.id)
      return {
        ...upstream,
        origin,
        createdMs: before?.createdMs ?? nowMs,
        updatedMs: nowMs,
      }
    }),
    models: catalog.models.map(({ routes: _, createdMs, ...model }) => {
      const before = modelsBySlug.get(model.slug)
      return {
        ...model,
        priceId: priceFor(before, { model: model.slug, upstream: null, pricing: model.pricing }),
        origin,
        createdMs: createdMs ?? before?.createdMs ?? nowMs,
        updatedMs: nowMs,
      }
    }),
    routes: catalog.models.flatMap(({ slug, routes }) =>
      routes.map((route) => {
        const row = { ...route, model: slug, origin }
        const { pricing } = route
        const before = routesByKey.get(toRouteKey(row))
        const priceId = pricing && priceFor(before, { model: slug, upstream: route.upstream, pricing })
        return { ...row, priceId }
      }),
    ),
    aliases: catalog.aliases.map((alias) => ({ ...alias, origin })),
  }
  return { rows, prices }
}
