/**
 * Brings what was found out up to date with newer public facts: prices, and what a model can and how long it is, but for what its
 * provider's own list has said. Only of what is built in or discovered; what a file or an administrator says stays, and is told of.
 */

import { isBuiltIn } from '../domain/dialects.ts'
import { FEATURES, type Feature } from '../domain/models.ts'
import type { CatalogRows, ModelRow, RouteRow, UpstreamRow } from '../store/catalog-rows.ts'
import type { ConfigStore } from '../store/config-store.ts'
import { type Facts, toPrices } from './complete.ts'
import { type EditBy, type Edited, editCatalog, NO_WRITE } from './edit.ts'
import { toPrice } from './edit-model.ts'
import { findAt, type KnownProviders, toFacts } from './known.ts'
import type { Left } from './plan.ts'
import { isFree } from './priced.ts'
import { findByAddress, findProvider } from './providers.ts'
import { KINDS } from './rows-as-entries.ts'
import { isSameRow } from './states.ts'

export interface Refreshed extends Edited {
  /** Models whose prices are another's, and differ from the facts. */
  left: Left[]
  /** Slugs that still have no price. */
  unpriced: string[]
  /** Slugs of models that cost nothing from now on, or at one of their upstreams, though that is a paid one. */
  free: string[]
}

/** @param source where the facts are from, for the audit row. */
export async function refreshFacts(
  store: ConfigStore,
  { known, shipped, source }: { known: KnownProviders; shipped: KnownProviders; source: string },
  by: EditBy,
): Promise<Refreshed> {
  let left: Left[] = []
  let unpriced: string[] = []
  let free: string[] = []
  const edited = await editCatalog(store, by, { action: 'catalog.refresh', subject: source }, (rows) => {
    const found = toRefreshed(rows, toFactsAt(rows.upstreams, known, shipped), by.nowMs)
    left = found.left
    unpriced = found.unpriced
    free = found.free
    return { write: found.write }
  })
  return { ...edited, left, unpriced, free }
}

/** What is known of a model as an upstream calls it; undefined where that is nothing. */
type FactsAt = (upstream: string, model: string) => Partial<Facts> | undefined

/** @param shipped says which provider is at which address. */
function toFactsAt(upstreams: readonly UpstreamRow[], known: KnownProviders, shipped: KnownProviders): FactsAt {
  const names = new Map(upstreams.filter(isPaid).map((row) => [row.id, toName(row, shipped)]))
  return (upstream, model) => {
    const name = names.get(upstream)
    const found = name && findAt(known, name, model)
    return found ? toFacts(found) : undefined
  }
}

/** The providers, by their names among the known facts, of which facts are looked for. */
export const listProviders = (upstreams: readonly UpstreamRow[], shipped: KnownProviders): string[] =>
  upstreams.filter(isPaid).map((row) => toName(row, shipped))

const isPaid = (row: UpstreamRow) => !row.local && !isBuiltIn(row)

function toName({ id, baseUrl, options: { preset } }: UpstreamRow, shipped: KnownProviders): string {
  if (preset !== undefined) return findProvider(shipped, preset).known
  return findByAddress(shipped, baseUrl ?? '')?.known ?? id
}

const isWeak = ({ origin }: Pick<ModelRow, 'origin'>) => origin === 'builtin' || origin === 'discovered'

function toRefreshed(rows: CatalogRows, factsAt: FactsAt, nowMs: number) {
  const write = { ...NO_WRITE, models: { ...NO_WRITE.models, update: [] as ModelRow[] }, prices: [...NO_WRITE.prices] }
  const routes: RouteRow[] = []
  const left: Left[] = []
  const free = new Set<string>()
  for (const model of rows.models) {
    const leading = rows.routes.filter((route) => route.model === model.slug).sort((a, b) => a.priority - b.priority)
    // What has a price of its own says nothing of its model's.
    const first = leading.find((route) => route.pricing === null)
    const newer = first && factsAt(first.upstream, first.upstreamModel)
    if (newer) {
      const { row, prices } = withFacts(model, newer, nowMs)
      if (isSameRow(model, row)) {
        // It is as the facts say.
      } else if (isWeak(model)) {
        write.models.update.push(row)
        if (prices.length > 0 && isFree(row.pricing)) free.add(row.slug)
        write.prices.push(...prices)
      } else left.push(...toLeft(model, row))
    }
    for (const route of leading) {
      const pricing =
        route.pricing && isWeak(route) && !route.fromList.includes('pricing')
          ? factsAt(route.upstream, route.upstreamModel)?.pricing
          : undefined
      if (pricing === undefined) continue
      const price = toPrice(route, pricing, { model: route.model, upstream: route.upstream }, nowMs)
      if (price.rows.length === 0) continue
      routes.push({ ...route, pricing: price.pricing, priceId: price.priceId })
      if (isFree(price.pricing)) free.add(route.model)
      write.prices.push(...price.rows)
    }
  }
  const after = new Map(write.models.update.map((row) => [row.slug, row]))
  const unpriced = rows.models.map((row) => after.get(row.slug) ?? row).filter(({ pricing }) => pricing.length === 0)
  return {
    write: { ...write, routes: { ...NO_WRITE.routes, update: routes } },
    left,
    unpriced: unpriced.map(({ slug }) => slug),
    free: [...free],
  }
}

/** Its name stays: people know it by that. */
const FACTS = ['contextLength', 'maxOutputLength', 'inputModalities', 'outputModalities'] as const

function withFacts(model: ModelRow, facts: Partial<Facts>, nowMs: number) {
  const { fromList } = model
  const newer = FACTS.filter((name) => facts[name] !== undefined && !fromList.includes(name))
  const changed: ModelRow = { ...model, ...Object.fromEntries(newer.map((name) => [name, facts[name]])) }
  changed.maxOutputLength = Math.min(changed.maxOutputLength, changed.contextLength)
  changed.supportedFeatures = toFeatures(model, facts)
  const pricing = fromList.includes('pricing') ? undefined : facts.pricing
  if (pricing === undefined) return { row: changed, prices: [] }
  const { rows: prices, ...price } = toPrice(
    model,
    toPrices(pricing) ?? [],
    { model: model.slug, upstream: null },
    nowMs,
  )
  // It was disabled for want of a price.
  const enabled = model.enabled || model.pricing.length === 0
  return { row: { ...changed, ...price, enabled, updatedMs: nowMs }, prices }
}

function toFeatures({ supportedFeatures, fromList }: ModelRow, facts: Partial<Facts>): Feature[] {
  const known = facts.supportedFeatures
  if (known === undefined) return supportedFeatures
  return FEATURES.filter((feature) => (fromList.includes(feature) ? supportedFeatures : known).includes(feature))
}

function toLeft(model: ModelRow, row: ModelRow): Left[] {
  if (Bun.deepEquals(model.pricing, row.pricing)) return []
  const name = KINDS.models.nameOf(model)
  const { origin } = model
  return [{ name, origin, why: 'stronger', before: { pricing: model.pricing }, after: { pricing: row.pricing } }]
}
