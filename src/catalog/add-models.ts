/**
 * Adds models of an upstream: listed ones, or ones that a person chose. New models become `discovered` entries, so files
 * override them and refreshes update them. Entered prices are manual.
 */
import { quote } from '../domain/explain.ts'
import { endpointsOf } from '../domain/models.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { PricingItem } from '../domain/usage.ts'
import type { CatalogRows, ModelRow, PriceRow, RouteRow, UpstreamRow } from '../store/catalog-rows.ts'
import type { ConfigStore } from '../store/config-store.ts'
import { toPrice, withLayer } from './apply.ts'
import { changeCatalog, type Decision, type EditBy, type Edited, type State, toState } from './change.ts'
import { requireModel } from './check-edit.ts'
import { byCondition, type DeclaredModel } from './complete.ts'
import { toDiscovered, toFew } from './discover.ts'
import { findUpstream, withEntry } from './edit.ts'
import { isSlug } from './entry.ts'
import { type AskModels, toFindOptions } from './providers.ts'

export interface Added extends Edited {
  /** Sentences about unchanged models and further routes. */
  notes: string[]
  /** Existing models that get a route to this upstream. */
  further: string[]
  /** New models. */
  fresh: string[]
  /** Models without a known price. */
  unpriced: string[]
}

/** Models that chat come first, as examples of what was added. */
const byChat = (a: DeclaredModel, b: DeclaredModel) => Number(canChat(b)) - Number(canChat(a))
const canChat = ({ outputModalities: made }: DeclaredModel) => endpointsOf(made).includes('chat')

export type AddDetails = Pick<Added, 'notes' | 'further' | 'fresh' | 'unpriced'>

/** Leaves existing models and routes as they are. Throws `upstream_not_found`. */
export const addModels = (store: ConfigStore, id: string, models: DeclaredModel[], by: EditBy): Promise<Added> =>
  changeCatalog(store, by, { action: 'upstreams.edit', subject: id }, (state) => {
    findUpstream(state.rows, id)
    return withModels(state, id, models, by.nowMs)
  })

/** @param isChosen true if a person chose each model: then existing ones get a route whatever their source. */
export function withModels(
  state: State,
  upstream: string,
  models: DeclaredModel[],
  nowMs: number,
  isChosen = false,
): Decision<AddDetails> {
  const { rows } = state
  const existing = new Map(rows.models.map((row) => [row.slug, row]))
  const aliases = new Set(rows.aliases.map(({ alias }) => alias))
  const staying: string[] = []
  const fresh = models.filter(({ slug }) => {
    if (aliases.has(slug)) staying.push(`${slug}: skipped, because an alias has this name.`)
    return !existing.has(slug) && !aliases.has(slug)
  })
  const found = withLayer(
    state,
    { upstreams: [], models: fresh, aliases: [] },
    { origin: 'discovered', prune: false, nowMs },
  )
  const prices: PriceRow[] = [...found.prices]
  const routes: RouteRow[] = []
  for (const model of models) {
    const row = existing.get(model.slug)
    if (!row) continue
    const further = toFurtherRoute(rows, upstream, row, model, isChosen)
    if (typeof further === 'string' && isChosen) throw invalid('models', further)
    if (typeof further === 'string') staying.push(further)
    else if (further !== null) {
      const price = toPrice(undefined, { model: row.slug, upstream, pricing: further.pricing ?? [] }, nowMs)
      routes.push({ ...further, priceId: price.priceId })
      if (price.row) prices.push(price.row)
    }
  }
  const further = routes.map(({ model }) => model)
  const notes = toFew(staying)
  if (further.length > 0)
    notes.push(
      `Already exist, and get a fallback route to ${upstream}: ${further.join(', ')}. If their other routes fail or are busy, ${upstream} receives the requests.`,
    )
  const slugsOf = (those: DeclaredModel[]) => those.map(({ slug }) => slug)
  const unpriced = slugsOf(fresh.filter(({ pricing }) => pricing.length === 0))
  return {
    layers: routes.reduce((layers, route) => withEntry(layers, 'routes', route), found.layers),
    prices,
    more: { notes, further, fresh: slugsOf(fresh.toSorted(byChat)), unpriced },
  }
}

/**
 * A fallback route with its own price, narrowed to what this provider supports; null if it exists, a sentence if
 * impossible.
 */
function toFurtherRoute(
  rows: CatalogRows,
  upstream: string,
  row: ModelRow,
  model: DeclaredModel,
  isChosen: boolean,
): RouteRow | string | null {
  const own = rows.routes.filter((route) => route.model === row.slug)
  const [declared] = model.routes
  if (!declared || own.some((one) => one.upstream === upstream && one.upstreamModel === declared.upstreamModel))
    return null
  if (row.origin !== 'discovered' && !isChosen)
    return `${row.slug}: already set by ${row.origin}, so no route was added. To add one to ${upstream}, change it there.`
  if (model.pricing.length === 0)
    return `${row.slug}: already exists, and its price at ${upstream} is unknown. ${isChosen ? 'Enter it.' : 'No route was added.'}`
  const { contextLength, maxOutputLength, supportedFeatures } = model
  const lacksSome = row.supportedFeatures.some((feature) => !supportedFeatures.includes(feature))
  return {
    ...declared,
    model: row.slug,
    priority: Math.max(-1, ...own.map(({ priority }) => priority)) + 1,
    pricing: model.pricing,
    priceId: null,
    contextLength: contextLength < row.contextLength ? contextLength : null,
    maxOutputLength: maxOutputLength < row.maxOutputLength ? maxOutputLength : null,
    supportedFeatures: lacksSome ? supportedFeatures.filter((one) => row.supportedFeatures.includes(one)) : null,
    origin: isChosen ? 'admin' : 'discovered',
  }
}

/** A model of an upstream that a person chose. */
export interface ChosenModel {
  /** The upstream's name for it. */
  upstreamModel: string
  slug: string
  /** If given, the choice fails unless it is still true. */
  exists?: boolean
  /** Manual price. If omitted, the known price applies. */
  pricing?: PricingItem[]
  contextLength?: number
}

export interface Chosen {
  chosen: readonly ChosenModel[]
  declared: DeclaredModel[]
}

/**
 * Facts about chosen models. Models that aren't listed are accepted by name. Throws `invalid`.
 * @param ask requests the list. If it fails, no model counts as listed.
 */
export async function findChosen(
  row: Pick<UpstreamRow, 'id' | 'dialect' | 'local' | 'baseUrl' | 'options'>,
  chosen: readonly ChosenModel[],
  ask: AskModels,
): Promise<Chosen> {
  if (chosen.length === 0) return { chosen, declared: [] }
  requireNames(chosen)
  const { provider, vendor, known } = await toFindOptions(row)
  const modelList = provider?.modelList ?? null
  const listed = modelList === 'not_deployed' ? [] : await ask().catch(withoutList)
  const wanted = new Set(chosen.map(({ upstreamModel }) => upstreamModel))
  const found = new Set(listed.map(({ id }) => id))
  const unlisted = [...wanted].filter((id) => !found.has(id)).map((id) => ({ id }))
  const { models: declared, notes } = toDiscovered([...listed.filter(({ id }) => wanted.has(id)), ...unlisted], {
    ...{ upstream: row.id, dialect: row.dialect, local: row.local },
    ...{ vendor, known, modelList, provider: provider?.known ?? null },
    selectors: chosen.map(({ upstreamModel, slug }) => ({ pattern: upstreamModel, slug })),
  })
  const missing = chosen.find(({ slug }) => !declared.some((model) => model.slug === slug))
  if (missing) throw invalid('models', `Can't add ${quote(missing.upstreamModel)}. ${notes.join(' ')}`)
  return { chosen, declared }
}

function withoutList(error: unknown): [] {
  if (error instanceof ServiceError && error.failure.kind === 'list_failed') return []
  throw error
}

function requireNames(chosen: readonly ChosenModel[]): void {
  const slugs = new Set<string>()
  for (const { slug, upstreamModel } of chosen) {
    if (!isSlug(slug))
      throw invalid('slug', `${quote(slug)} is not a valid model ID. Use vendor/name, such as openai/gpt-5.`)
    if (slugs.has(slug)) throw invalid('slug', `Two of the models are named ${slug}. Choose different names.`)
    slugs.add(slug)
    if (upstreamModel.includes('*')) throw invalid('upstream_model', 'Name one model, without *.')
  }
}

const invalid = (field: string, message: string) => new ServiceError({ kind: 'invalid', field }, message)

/**
 * Adds new models with the prices that were entered. Existing models get a route. Throws `invalid`, and
 * `catalog_changed` if a model was added or removed since.
 */
export function withChosen(
  state: State,
  upstream: string,
  { chosen, declared }: Chosen,
  nowMs: number,
): Decision<AddDetails> {
  const { rows } = state
  const existing = new Set(rows.models.map(({ slug }) => slug))
  const typed = new Map(chosen.map((one) => [one.slug, one]))
  for (const { slug, exists } of chosen) {
    if (rows.aliases.some(({ alias }) => alias === slug))
      throw invalid('slug', `${slug} is an alias. Choose another name.`)
    if (exists === undefined || exists === existing.has(slug)) continue
    const now = exists ? 'no longer exists' : 'already exists'
    throw new ServiceError({ kind: 'catalog_changed' }, `The model ${slug} ${now}. Nothing was saved.`)
  }
  const models = declared.map((model): DeclaredModel => {
    const { pricing } = typed.get(model.slug) ?? {}
    return pricing && existing.has(model.slug) ? { ...model, pricing } : model
  })
  const decision = withModels(state, upstream, models, nowMs, true)
  const prices = [...(decision.prices ?? [])]
  const fresh = decision.more.fresh.flatMap((slug) => typed.get(slug) ?? [])
  const layers = fresh.reduce((layers, model) => {
    const entry = toManual(model, nowMs, prices)
    return entry === null ? layers : withEntry(layers, 'models', entry)
  }, decision.layers)
  const after = toState(layers)
  for (const { slug } of fresh) {
    const model = after.rows.models.find((row) => row.slug === slug)
    if (model) requireModel(model, after.rows)
  }
  const isPriced = (slug: string) => typed.get(slug)?.pricing !== undefined
  const unpriced = decision.more.unpriced.filter((slug) => !isPriced(slug))
  return { ...decision, layers, prices, more: { ...decision.more, unpriced } }
}

/** The manual entry of a new model; null if no value was entered. */
function toManual({ slug, pricing, contextLength }: ChosenModel, nowMs: number, prices: PriceRow[]) {
  if (pricing === undefined && contextLength === undefined) return null
  const sorted = pricing?.toSorted(byCondition)
  const price = sorted && toPrice(undefined, { model: slug, upstream: null, pricing: sorted }, nowMs)
  if (price?.row) prices.push(price.row)
  return {
    ...{ slug, origin: 'admin' as const, updatedMs: nowMs },
    ...(contextLength === undefined ? {} : { contextLength }),
    ...(sorted && price ? { pricing: sorted, priceId: price.priceId, enabled: true } : {}),
  }
}

/** Creates a chosen model of an existing upstream. Throws what `withChosen` does, and `upstream_not_found`. */
export const createChosen = (
  store: ConfigStore,
  id: string,
  slug: string,
  chosen: Chosen,
  by: EditBy,
): Promise<Added> =>
  changeCatalog(store, by, { action: 'models.create', subject: slug }, (state) => {
    findUpstream(state.rows, id)
    return withChosen(state, id, chosen, by.nowMs)
  })
