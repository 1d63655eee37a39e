/**
 * The rows that a catalogue asks for, seen beside the rows that there are: what a file says nothing of, such as when a row
 * was made, carries over. Called by `plan.ts`. Pure: time and ids come in.
 */
import type { Origin } from '../domain/models.ts'
import type { PricingItem } from '../domain/usage.ts'
import type { CatalogRows, ModelRow, PriceRow } from '../store/catalog-rows.ts'
import type { Catalog, DeclaredModel } from './complete.ts'
import { toRouteName } from './rows-as-entries.ts'

export interface RowOptions {
  /** The origin that the rows get. */
  origin: Origin
  nowMs: number
  mintId(): string
}

/**
 * Converts a catalogue. Prices are only ever added: an unchanged price keeps its row, and `prices` has a new one for each that
 * changed.
 */
export function toRows(catalog: Catalog, current: CatalogRows, { origin, nowMs, mintId }: RowOptions) {
  const prices: PriceRow[] = []
  const toPriceId = (
    before: { pricing: PricingItem[] | null; priceId: string | null } | undefined,
    price: { model: string; upstream: string | null; pricing: PricingItem[] },
  ): string | null => {
    // Nobody knows what it costs.
    if (price.pricing.length === 0) return null
    if (before?.priceId && Bun.deepEquals(before.pricing, price.pricing)) return before.priceId
    const row = { ...price, id: mintId(), createdMs: nowMs }
    prices.push(row)
    return row.id
  }
  const upstreamsById = new Map(current.upstreams.map((row) => [row.id, row]))
  const modelsBySlug = new Map(current.models.map((row) => [row.slug, row]))
  const routesByKey = new Map(current.routes.map((row) => [toRouteName(row), row]))

  const rows: CatalogRows = {
    upstreams: catalog.upstreams.map((upstream) => {
      const createdMs = upstreamsById.get(upstream.id)?.createdMs ?? nowMs
      return { ...upstream, origin, createdMs, updatedMs: nowMs }
    }),
    models: catalog.models.map(({ routes: _, ...model }) => {
      const before = modelsBySlug.get(model.slug)
      const priceId = toPriceId(before, { model: model.slug, upstream: null, pricing: model.pricing })
      return { ...model, priceId, origin, createdMs: toCreatedMs(model, before, nowMs), updatedMs: nowMs }
    }),
    routes: catalog.models.flatMap(({ slug, routes }) =>
      routes.map((route) => {
        const row = { ...route, model: slug, origin }
        const { pricing, upstream } = route
        const before = routesByKey.get(toRouteName(row))
        return { ...row, priceId: pricing && toPriceId(before, { model: slug, upstream, pricing }) }
      }),
    ),
    aliases: catalog.aliases.map((alias) => ({ ...alias, origin })),
  }
  return { rows, prices }
}

/** Names the rows of a catalogue, as `KINDS` does. */
export const namesOfDeclared = ({ upstreams, models, aliases }: Catalog): string[] => [
  ...upstreams.map(({ id }) => `upstreams.${id}`),
  ...models.map(({ slug }) => `models.${slug}`),
  ...models.flatMap(({ slug, routes }) => routes.map((route) => toRouteName({ ...route, model: slug }))),
  ...aliases.map(({ alias }) => `aliases.${alias}`),
]

/** A file knows seconds; a row that was made within the one that it says was made when it was. */
function toCreatedMs(
  { createdMs }: Pick<DeclaredModel, 'createdMs'>,
  before: ModelRow | undefined,
  nowMs: number,
): number {
  if (createdMs === null) return before?.createdMs ?? nowMs
  const isWithin = before !== undefined && Math.floor(before.createdMs / 1_000) * 1_000 === createdMs
  return isWithin ? before.createdMs : createdMs
}
