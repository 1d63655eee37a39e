/**
 * Updates built-in and discovered models with newer public facts. Facts from the provider's own list don't change.
 * Reports overridden prices.
 */

import { isBuiltIn } from '../domain/dialects.ts'
import { FEATURES, type Feature } from '../domain/models.ts'
import { isWhole, mergeLayers } from '../store/catalog-layers.ts'
import type { ModelRow, PriceRow, UpstreamRow } from '../store/catalog-rows.ts'
import type { ConfigStore } from '../store/config-store.ts'
import { toPrice } from './apply.ts'
import { changeCatalog, type Decision, type EditBy, type Edited, type Overridden, type State } from './change.ts'
import { type Facts, isFree, toPrices } from './complete.ts'
import { isSame } from './edit.ts'
import { KINDS } from './fields.ts'
import { findAt, type KnownProviders, toFacts } from './known.ts'
import { findByAddress, findProvider } from './providers.ts'

interface RefreshDetails {
  /** Models whose prices from files or administrators differ. */
  overridden: Overridden[]
  /** Still without a price. */
  unpriced: string[]
  /** Now free at a paid upstream. */
  free: string[]
}

export type Refreshed = Edited & RefreshDetails

/** @param source where the facts come from, for the audit log */
export const refreshFacts = (
  store: ConfigStore,
  { known, shipped, source }: { known: KnownProviders; shipped: KnownProviders; source: string },
  by: EditBy,
): Promise<Refreshed> =>
  changeCatalog(store, by, { action: 'catalog.refresh', subject: source }, (state) =>
    toRefreshed(state, toFactsAt(state.rows.upstreams, known, shipped), by.nowMs),
  )

/** By the upstream's name for a model; undefined if unknown. */
type FactsAt = (upstream: string, model: string) => Partial<Facts> | undefined

/** @param shipped maps addresses to providers */
function toFactsAt(upstreams: readonly UpstreamRow[], known: KnownProviders, shipped: KnownProviders): FactsAt {
  const names = new Map(upstreams.filter(isPaid).map((row) => [row.id, toName(row, shipped)]))
  return (upstream, model) => {
    const name = names.get(upstream)
    const found = name && findAt(known, name, model)
    return found ? toFacts(found) : undefined
  }
}

/** Named as in the known facts. */
export const listProviders = (upstreams: readonly UpstreamRow[], shipped: KnownProviders): string[] =>
  upstreams.filter(isPaid).map((row) => toName(row, shipped))

const isPaid = (row: UpstreamRow) => !row.local && !isBuiltIn(row)

function toName({ id, baseUrl, options: { preset } }: UpstreamRow, shipped: KnownProviders): string {
  if (preset !== undefined) return findProvider(shipped, preset).known
  return findByAddress(shipped, baseUrl ?? '')?.known ?? id
}

/** Entries that a refresh may change. */
const isWeak = ({ origin }: Pick<ModelRow, 'origin'>) => origin === 'builtin' || origin === 'discovered'

function toRefreshed({ layers, rows }: State, factsAt: FactsAt, nowMs: number): Decision<RefreshDetails> {
  const prices: PriceRow[] = []
  const overridden: Overridden[] = []
  const routesOf = Map.groupBy(rows.routes, ({ model }) => model)
  // Skips routes with their own price, whose facts don't show the model's price.
  const factsOf = ({ slug }: ModelRow) => {
    const [first] = (routesOf.get(slug) ?? [])
      .filter(({ pricing }) => pricing === null)
      .toSorted((a, b) => a.priority - b.priority)
    return first && factsAt(first.upstream, first.upstreamModel)
  }
  for (const model of rows.models) {
    const newer = isWeak(model) ? undefined : factsOf(model)
    if (newer) overridden.push(...toOverridden(model, withFacts(model, newer, nowMs).row))
  }
  const models = layers.models.map((entry) => {
    const newer = isWeak(entry) && isWhole('models', entry) ? factsOf(entry) : undefined
    if (!newer || !isWhole('models', entry)) return entry
    const { row, price } = withFacts(entry, newer, nowMs)
    if (isSame(entry, row)) return entry
    if (price) prices.push(price)
    return row
  })
  const routes = layers.routes.map((entry) => {
    const isOld = isWeak(entry) && isWhole('routes', entry) && !entry.fromList.includes('pricing') && entry.pricing
    const pricing = isOld ? factsAt(entry.upstream, entry.upstreamModel)?.pricing : undefined
    if (pricing === undefined) return entry
    const sorted = toPrices(pricing) ?? []
    const { priceId, row } = toPrice(entry, { model: entry.model, upstream: entry.upstream, pricing: sorted }, nowMs)
    if (!row) return entry
    prices.push(row)
    return { ...entry, pricing: sorted, priceId }
  })
  const next = { ...layers, models, routes }
  const after = mergeLayers(next)
  const isNew = new Set(prices.map(({ id }) => id))
  const free = [
    ...after.models.flatMap(({ slug, priceId, pricing }) => (isNew.has(priceId ?? '') && isFree(pricing) ? slug : [])),
    ...after.routes.flatMap(({ model, priceId, pricing }) =>
      isNew.has(priceId ?? '') && pricing && isFree(pricing) ? model : [],
    ),
  ]
  const unpriced = after.models.flatMap(({ slug, pricing }) => (pricing.length === 0 ? slug : []))
  return { layers: next, prices, more: { overridden, unpriced, free: [...new Set(free)] } }
}

/** Excludes names, since users know models by them. */
const FACTS = ['contextLength', 'maxOutputLength', 'inputModalities', 'outputModalities'] as const

function withFacts(model: ModelRow, facts: Partial<Facts>, nowMs: number) {
  const { fromList } = model
  const newer = FACTS.filter((name) => facts[name] !== undefined && !fromList.includes(name))
  const changed: ModelRow = { ...model, ...Object.fromEntries(newer.map((name) => [name, facts[name]])) }
  changed.maxOutputLength = Math.min(changed.maxOutputLength, changed.contextLength)
  changed.supportedFeatures = toFeatures(model, facts)
  const pricing = fromList.includes('pricing') ? undefined : facts.pricing
  if (pricing === undefined) return { row: changed, price: null }
  const sorted = toPrices(pricing) ?? []
  const { priceId, row: price } = toPrice(model, { model: model.slug, upstream: null, pricing: sorted }, nowMs)
  // A model without a price was disabled for that reason.
  const enabled = model.enabled || model.pricing.length === 0
  return { row: { ...changed, pricing: sorted, priceId, enabled, updatedMs: nowMs }, price }
}

function toFeatures({ supportedFeatures, fromList }: ModelRow, facts: Partial<Facts>): Feature[] {
  const known = facts.supportedFeatures
  if (known === undefined) return supportedFeatures
  return FEATURES.filter((feature) => (fromList.includes(feature) ? supportedFeatures : known).includes(feature))
}

function toOverridden(model: ModelRow, row: ModelRow): Overridden[] {
  if (Bun.deepEquals(model.pricing, row.pricing)) return []
  const name = KINDS.models.nameOf(model)
  return [{ name, origin: model.origin, before: { pricing: model.pricing }, after: { pricing: row.pricing } }]
}
