/** Manual changes to models and routes. The admin layer has only fields that were set manually. */
import { type FieldChanges, toChanged, toDefined } from '../domain/changes.ts'
import { closest } from '../domain/closest.ts'
import { quote } from '../domain/explain.ts'
import type { RouteSettings } from '../domain/models.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { PricingItem } from '../domain/usage.ts'
import {
  type CatalogLayers,
  type EntryOf,
  findBelow,
  isWhole,
  type Kind,
  NAMES,
  NO_LAYERS,
  toKey,
} from '../store/catalog-layers.ts'
import type { CatalogRows, ModelRow, PriceRow, RouteRow, UpstreamRow } from '../store/catalog-rows.ts'
import type { ConfigStore } from '../store/config-store.ts'
import { toPrice } from './apply.ts'
import { type Edit, type EditBy, type Edited, editCatalog, requireRow, toState } from './change.ts'
import { requireModel, requirePriced, requireRoute } from './check-edit.ts'
import { byCondition, PLAIN_ROUTE } from './complete.ts'
import { toRouteName } from './fields.ts'

/**
 * @param name a model ID or an alias
 * @throws `model_not_found`
 */
export function findModel({ models, aliases }: Pick<CatalogRows, 'models' | 'aliases'>, name: string): ModelRow {
  const slug = aliases.find(({ alias }) => alias === name)?.model ?? name
  const found = models.find((row) => row.slug === slug)
  if (found) return found
  const hint = closest(name, [...models.map((row) => row.slug), ...aliases.map(({ alias }) => alias)])
  throw new ServiceError({ kind: 'model_not_found', model: name }, `Unknown model ${quote(name)}${hint}.`)
}

/** @throws `upstream_not_found`. */
export function findUpstream({ upstreams }: Pick<CatalogRows, 'upstreams'>, id: string): UpstreamRow {
  const found = upstreams.find((row) => row.id === id)
  if (found) return found
  const hint = closest(
    id,
    upstreams.map((row) => row.id),
  )
  throw new ServiceError({ kind: 'upstream_not_found', upstream: id }, `Unknown upstream ${quote(id)}${hint}.`)
}

export type RouteId = Pick<RouteRow, 'model' | 'upstream' | 'upstreamModel'>

const isRoute = (row: RouteId, { model, upstream, upstreamModel }: RouteId): boolean =>
  row.model === model && row.upstream === upstream && row.upstreamModel === upstreamModel

export function withEntry<K extends Kind>(layers: CatalogLayers, kind: K, entry: EntryOf<K>): CatalogLayers {
  const key = toKey(kind, entry)
  const entries: EntryOf<K>[] = layers[kind]
  const has = entries.some((one) => toKey(kind, one) === key)
  const next = has ? entries.map((one) => (toKey(kind, one) === key ? entry : one)) : [...entries, entry]
  return { ...layers, [kind]: next }
}

/** Ignores source and time. */
export const isSame = (one: object, other: object) => {
  const meta = { origin: 'admin', updatedMs: 0 }
  return Bun.deepEquals({ ...one, ...meta }, { ...other, ...meta })
}

/** Omitted fields don't change. */
export type ModelChanges = Partial<
  Pick<ModelRow, 'pricing' | 'supportedFeatures' | 'contextLength' | 'maxOutputLength' | 'enabled' | 'listed'>
>

/**
 * @param name a model ID or an alias
 * @throws `invalid` with the field, `model_not_found`
 */
export function editModel(store: ConfigStore, name: string, changes: ModelChanges, by: EditBy): Promise<Edited> {
  return editCatalog(store, by, { action: 'models.edit', subject: name }, ({ layers, rows }): Edit => {
    const before = findModel(rows, name)
    const { slug } = before
    requireRow(by, 'models', before)
    const { pricing, ...others } = toDefined(changes)
    // The first price enables a model that was disabled because it had none.
    const given = { ...(pricing?.length && before.pricing.length === 0 && { enabled: true }), ...others }
    const price = pricing && withPrice(before, pricing, { model: slug, upstream: null }, by.nowMs)
    const own = layers.models.find((entry) => entry.slug === slug && entry.origin === 'admin')
    const entry = { slug, ...own, ...given, ...price?.fields, origin: 'admin' as const, updatedMs: by.nowMs }
    // Checks the new fields on the effective row, since a file may have narrowed earlier manual settings.
    requireModel({ ...before, ...given, ...price?.fields }, rows)
    const after = toState(withEntry(layers, 'models', entry))
    const row = findModel({ ...after.rows, aliases: [] }, slug)
    return isSame(before, row) ? { layers } : { layers: after.layers, prices: price?.rows ?? [] }
  })
}

function withPrice(
  before: Pick<RouteRow, 'pricing' | 'priceId'> | undefined,
  given: PricingItem[],
  of: Pick<PriceRow, 'model' | 'upstream'>,
  nowMs: number,
) {
  const pricing = given.toSorted(byCondition)
  const { priceId, row } = toPrice(before, { ...of, pricing }, nowMs)
  return { fields: { pricing, priceId }, rows: row ? [row] : [] }
}

/**
 * Discards manual changes to a model and its routes. Throws `model_not_found`, and `no_earlier_state` if nothing else
 * ever declared the model.
 */
export async function resetModel(store: ConfigStore, name: string, by: EditBy): Promise<Edited> {
  const { slug } = findModel(await store.readCatalog(), name)
  const earlier = await findEarlier(store, slug)
  return editCatalog(store, by, { action: 'models.reset', subject: slug }, ({ layers, rows }): Edit => {
    requireRow(by, 'models', findModel(rows, slug))
    const models = withoutEdits(layers.models, ({ slug: model }) => model === slug, earlier?.models, NAMES.models)
    const routes = withoutEdits(layers.routes, ({ model }) => model === slug, earlier?.routes, NAMES.routes)
    if (!models.some((entry) => entry.slug === slug))
      throw new ServiceError(
        { kind: 'no_earlier_state', model: slug },
        `${slug} was set manually, so there is nothing to reset it to.`,
      )
    return { layers: { ...layers, models, routes } }
  })
}

/** If a name has no other entry, its earlier entry returns. */
function withoutEdits<Entry extends { origin: ModelRow['origin'] }>(
  entries: readonly Entry[],
  isOwn: (entry: Entry) => boolean,
  earlier: readonly Entry[] = [],
  nameOf: (entry: Entry) => string,
): Entry[] {
  const isEdit = (entry: Entry) => entry.origin === 'admin' && isOwn(entry)
  const staying = entries.filter((entry) => !isEdit(entry))
  const known = new Set(staying.map(nameOf))
  const bare = new Set(entries.filter((entry) => isEdit(entry) && !known.has(nameOf(entry))).map(nameOf))
  return [...staying, ...earlier.filter((entry) => bare.has(nameOf(entry)))]
}

/**
 * The newest version without manual settings of a model. Before layers existed, a manual change replaced the whole row,
 * so nothing is below it. Versions are unpacked one at a time.
 */
async function findEarlier(store: ConfigStore, slug: string): Promise<Pick<CatalogLayers, 'models' | 'routes'> | null> {
  for (const { number } of (await store.readVersions()).toReversed()) {
    const { layers = NO_LAYERS } = (await store.readVersion(number)) ?? {}
    const models = layers.models.filter((entry) => entry.slug === slug)
    const routes = layers.routes.filter(({ model }) => model === slug)
    const isByHand = [...models, ...routes].some(({ origin }) => origin === 'admin')
    if (models.length > 0 && !isByHand) return { models, routes }
    await Bun.sleep(0)
  }
  return null
}

/** Omitted fields don't change; a new route gets defaults. null = as its model. */
export interface RouteChanges
  extends Partial<
    Pick<
      RouteRow,
      'priority' | 'weight' | 'pricing' | 'contextLength' | 'maxOutputLength' | 'supportedFeatures' | 'enabled'
    >
  > {
  /** Reasoning settings; null = unset. */
  options?: FieldChanges<RouteSettings>
}

const PLAIN = { ...PLAIN_ROUTE, priceId: null, origin: 'admin' } satisfies Omit<RouteRow, keyof RouteId>

/** Throws `invalid` with the field, `model_not_found`, `upstream_not_found`. */
export function setRoute(store: ConfigStore, id: RouteId, changes: RouteChanges, by: EditBy): Promise<Edited> {
  return editCatalog(store, by, { action: 'routes.set', subject: toSubject(id) }, ({ layers, rows }): Edit => {
    const model = findModel(rows, id.model)
    findUpstream(rows, id.upstream)
    const key = { ...id, model: model.slug }
    const before = rows.routes.find((route) => isRoute(route, key))
    const counting = before ?? { ...PLAIN, ...key }
    requireRow(by, 'routes', counting)
    const { pricing, options = {}, ...given } = toDefined(changes)
    const of = { model: model.slug, upstream: id.upstream }
    const price = pricing ? withPrice(before, pricing, of, by.nowMs) : null
    const free = pricing === null ? { pricing: null, priceId: null } : {}
    const own = layers.routes.find((entry) => entry.origin === 'admin' && isRoute(entry, key))
    // Manual settings aren't a complete route.
    const known: EntryOf<'routes'> = before ? (own ?? { ...key, origin: 'admin' }) : { ...PLAIN, ...key }
    const fields = { ...given, ...free, ...price?.fields }
    const entry = { ...known, ...fields, ...toOptions(known, options) }
    requireRoute({ ...counting, ...fields, options: toChanged(counting.options, toDefined(options)) }, model, rows)
    const after = toState(withEntry(layers, 'routes', entry))
    const row = after.rows.routes.find((route) => isRoute(route, key))
    if (!row) throw new Error('a route that was set is there')
    if (before && isSame(before, row)) return { layers }
    requirePriced(after.rows, (route) => isRoute(route, key), 'pricing')
    return { layers: after.layers, prices: price?.rows ?? [] }
  })
}

const toOptions = (known: EntryOf<'routes'>, given: FieldChanges<RouteSettings>) => {
  if (Object.keys(given).length === 0) return {}
  // A complete entry drops a cleared field; a partial one keeps null as an override.
  return {
    options: isWhole('routes', known) ? toChanged(known.options, given) : { ...known.options, ...toDefined(given) },
  }
}

/** @throws `model_not_found`, `route_not_found`, `declared_elsewhere`, and `invalid` for a model's last route */
export function deleteRoute(store: ConfigStore, id: RouteId, by: EditBy): Promise<Edited> {
  return editCatalog(store, by, { action: 'routes.delete', subject: toSubject(id) }, ({ layers, rows }): Edit => {
    const { slug } = findModel(rows, id.model)
    const key = { ...id, model: slug }
    const row = rows.routes.find((route) => isRoute(route, key))
    if (!row) throw new ServiceError({ kind: 'route_not_found' }, `Unknown route: ${toRouteName(key)}.`)
    requireRow(by, 'routes', row)
    requireOwn(
      layers.routes.filter((entry) => isRoute(entry, key)),
      'This route',
    )
    if (rows.routes.filter(({ model }) => model === slug).length === 1)
      throw new ServiceError(
        { kind: 'invalid', field: 'route' },
        `This is the only route of ${slug}. Add another one first, or disable the model.`,
      )
    return { layers: { ...layers, routes: layers.routes.filter((entry) => !isRoute(entry, key)) } }
  })
}

const toSubject = ({ model, upstream, upstreamModel }: RouteId) => `${model} on ${upstream} (${upstreamModel})`

/** @throws `declared_elsewhere` if a deleted row would come back. */
export function requireOwn(entries: readonly { origin: ModelRow['origin'] }[], what: string): void {
  const below = findBelow(entries)
  if (!below) return
  const { origin } = below
  throw new ServiceError(
    { kind: 'declared_elsewhere', origin },
    `${what} is declared elsewhere (${origin}) and would be re-created. Disable it instead.`,
  )
}

/**
 * Also deletes its upstream, if nothing else uses that. Throws `model_not_found`, `declared_elsewhere` if it has no
 * local model server, and `invalid` if an alias names it.
 */
export function deleteServedModel(store: ConfigStore, slug: string, by: EditBy): Promise<Edited> {
  return editCatalog(store, by, { action: 'models.delete', subject: slug }, ({ layers, rows }): Edit => {
    const model = findModel({ ...rows, aliases: [] }, slug)
    const routes = rows.routes.filter((route) => route.model === slug)
    const upstreams = rows.upstreams.filter(
      ({ id, options }) =>
        options.process !== undefined &&
        routes.some(({ upstream }) => upstream === id) &&
        !rows.routes.some((route) => route.upstream === id && route.model !== slug),
    )
    if (upstreams.length === 0)
      throw new ServiceError(
        { kind: 'declared_elsewhere', origin: model.origin },
        `${slug} was not added from a file. Remove its upstream with tollgate upstreams remove, or in the catalog file that declares it.`,
      )
    const alias = rows.aliases.find((one) => one.model === slug)
    if (alias)
      throw new ServiceError(
        { kind: 'invalid', field: 'slug' },
        `${alias.alias} is an alias of ${slug}. Remove the alias first.`,
      )
    const gone = new Set(upstreams.map(({ id }) => id))
    return {
      layers: {
        ...layers,
        models: layers.models.filter((entry) => entry.slug !== slug),
        upstreams: layers.upstreams.filter(({ id }) => !gone.has(id)),
        routes: layers.routes.filter((entry) => entry.model !== slug),
      },
    }
  })
}
