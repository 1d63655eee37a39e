/** Applies a catalog to its layer. With `prune`, deletes what it doesn't declare. Also restores earlier versions. */
import { mintTag } from '../domain/id.ts'
import type { Origin } from '../domain/models.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { PricingItem } from '../domain/usage.ts'
import {
  type CatalogLayers,
  type EntryOf,
  KIND_NAMES,
  type Kind,
  mapKinds,
  mergeLayers,
  NAMES,
  NO_LAYERS,
  toKey,
} from '../store/catalog-layers.ts'
import type { CatalogRows, CatalogVersion, KeptCatalog, PriceRow } from '../store/catalog-rows.ts'
import type { ConfigStore, Settings } from '../store/config-store.ts'
import {
  type Changes,
  changeCatalog,
  type EditBy,
  type Edited,
  findOverridden,
  findUnseen,
  MAX_KEPT,
  type Overridden,
  requireState,
  type State,
  toChanges,
  toStateRevision,
} from './change.ts'
import type { Catalog } from './complete.ts'
import { KINDS } from './fields.ts'
import type { CatalogSource } from './source.ts'

/** Options that make an apply destructive. */
export interface DestructiveOptions {
  /** Deletes undeclared entries. With `managed`, only those of local model servers. */
  prune?: boolean | 'managed'
  /** Discards manual changes to entries that the catalog declares. */
  discardEdits?: boolean
}

/** Throws a ServiceError if the caller may not make the change. */
export type Permit = (before: State, after: State) => void

export interface ApplyOptions extends EditBy, DestructiveOptions {
  origin: Origin
  permit?: Permit
  /** For the audit log: the catalog's path, or `built-in`. */
  subject: string
  /** `toDigest` of its source: a start skips an unchanged catalog. */
  digest: string
}

export interface Applied extends Edited {
  /** Revision of the catalog before the change. */
  revision: string
  /** Entries that a stronger layer overrides. */
  overridden: Overridden[]
  /** Undeclared entries that were not pruned. */
  kept: string[]
  /** Manual settings of missing rows, which apply again if the rows return. */
  unseen: string[]
}

/** Throws `catalog_missing` for the built-in catalog if a file was applied before: then that file is missing. */
export function applyCatalog(store: ConfigStore, catalog: Catalog, options: ApplyOptions): Promise<Applied> {
  const { origin, digest, subject, permit, nowMs, prune = false, discardEdits = false } = options
  return changeCatalog(store, options, { action: 'catalog.apply', subject }, (state) => {
    requireState(options, state)
    if (origin === 'builtin' && KIND_NAMES.some((kind) => state.layers[kind].some((entry) => entry.origin === 'file')))
      throw new ServiceError(
        { kind: 'catalog_missing' },
        'This database was set up from a catalog file, but there is no catalog.yaml in the data folder or the current folder. Restore the file, or pass it with --catalog FILE.',
      )
    const { layers, prices, declared, kept } = withLayer(state, catalog, { origin, prune, nowMs })
    const wanted = discardEdits && origin !== 'admin' ? withoutEdits(layers, declared) : layers
    const after = { layers: wanted, rows: mergeLayers(wanted) }
    permit?.(state, after)
    const overridden = findOverridden(after.rows, declared)
    return {
      ...{ layers: wanted, prices },
      // The next start checks kept entries again.
      settings: { [APPLIED_DIGEST]: kept.length === 0 ? digest : '' },
      detail: { origin, overridden: overridden.length, kept: kept.length },
      more: { revision: toStateRevision(state), overridden, kept, unseen: findUnseen(after) },
    }
  })
}

interface LayerOptions {
  origin: Origin
  prune: boolean | 'managed'
  nowMs: number
}

/**
 * A file replaces the built-in entries that it declares, models with their routes. With `prune`, it replaces all of them.
 * Prices are only added, and an unchanged price keeps its row.
 */
export function withLayer({ layers, rows }: State, catalog: Catalog, { origin, prune, nowMs }: LayerOptions) {
  const prices: PriceRow[] = []
  const declared = toRows(catalog, { layers, rows }, { origin, nowMs, prices })
  const managed = prune === 'managed' ? namesOfManaged(layers) : null
  const kept: string[] = []
  const slugs = new Set(declared.models.map(({ slug }) => slug))
  const rowsOf: CatalogLayers = declared
  const next = mapKinds(<K extends Kind>(kind: K) => {
    const wanted = new Map(rowsOf[kind].map((entry) => [toKey(kind, entry), entry]))
    const names = new Set(rowsOf[kind].map(KINDS[kind].nameOf))
    const staying = layers[kind].flatMap((entry): EntryOf<K>[] => {
      const now = wanted.get(toKey(kind, entry))
      wanted.delete(toKey(kind, entry))
      if (now) return [isSameEntry(entry, now) ? entry : now]
      const name = KINDS[kind].nameOf(entry)
      const isDeclared = names.has(name) || (kind === 'routes' && slugs.has((entry as EntryOf<'routes'>).model))
      if (entry.origin === 'builtin' && (origin === 'builtin' || (origin === 'file' && isDeclared))) return []
      if (entry.origin !== origin && !(entry.origin === 'builtin' && origin === 'file')) return [entry]
      if (managed ? managed.has(name) : prune === true) return []
      kept.push(name)
      return [entry]
    })
    return [...staying, ...wanted.values()]
  })
  return { layers: next, prices, declared, kept }
}

/** Facts that the catalog omits, such as a row's creation time, carry over. New prices are added to `prices`. */
function toRows(catalog: Catalog, { layers, rows }: State, { origin, nowMs, prices }: RowOptions): CatalogRows {
  // The layer's own entry, else the effective row.
  const counting: CatalogLayers = rows
  const find = <K extends Kind>(kind: K): ((name: string) => EntryOf<K> | undefined) => {
    const own = layers[kind].filter((entry) => entry.origin === origin)
    const known = new Map([...counting[kind], ...own].map((entry) => [NAMES[kind](entry), entry]))
    return (name) => known.get(name)
  }
  const [upstreamOf, modelOf, routeOf] = [find('upstreams'), find('models'), find('routes')]
  const priced = (before: Priced | undefined, price: Omit<PriceRow, 'id' | 'createdMs'>) => {
    const { row, priceId } = toPrice(before, price, nowMs)
    if (row) prices.push(row)
    return priceId
  }
  return {
    upstreams: catalog.upstreams.map((upstream) => {
      const createdMs = upstreamOf(upstream.id)?.createdMs ?? nowMs
      return { ...upstream, origin, createdMs, updatedMs: nowMs }
    }),
    models: catalog.models.map(({ routes: _, ...model }) => {
      const before = modelOf(model.slug)
      const priceId = priced(before, { model: model.slug, upstream: null, pricing: model.pricing })
      const createdMs = toCreatedMs(model.createdMs, before?.createdMs, nowMs)
      return { ...model, priceId, origin, createdMs, updatedMs: nowMs }
    }),
    routes: catalog.models.flatMap(({ slug, routes }) =>
      routes.map((route) => {
        const row = { ...route, model: slug, origin }
        const { pricing, upstream } = route
        const priceId = pricing && priced(routeOf(NAMES.routes(row)), { model: slug, upstream, pricing })
        return { ...row, priceId }
      }),
    ),
    aliases: catalog.aliases.map((alias) => ({ ...alias, origin })),
  }
}

interface RowOptions extends Pick<LayerOptions, 'origin' | 'nowMs'> {
  prices: PriceRow[]
}

type Priced = { pricing?: PricingItem[] | null; priceId?: string | null }

/** The price's row ID, and the row if new; null without a known price. */
export function toPrice(
  before: Priced | undefined,
  price: Omit<PriceRow, 'id' | 'createdMs'>,
  createdMs: number,
): { priceId: string | null; row: PriceRow | null } {
  if (price.pricing.length === 0) return { priceId: null, row: null }
  if (before?.priceId && Bun.deepEquals(before.pricing, price.pricing)) return { priceId: before.priceId, row: null }
  const row = { ...price, id: mintTag(), createdMs }
  return { priceId: row.id, row }
}

/** A time within the same second keeps its milliseconds, which files lack. */
function toCreatedMs(said: number | null, before: number | undefined, nowMs: number): number {
  if (said === null) return before ?? nowMs
  return before !== undefined && Math.floor(before / 1_000) * 1_000 === said ? before : said
}

/**
 * File entries of local model servers, useless without the file that has their commands: upstreams, their routes,
 * models without other routes, and aliases.
 */
function namesOfManaged(layers: CatalogLayers): ReadonlySet<string> {
  const { upstreams, models, routes, aliases } = mapKinds((kind) =>
    layers[kind].filter((entry) => entry.origin === 'file'),
  )
  const managed = upstreams.filter(({ options }) => options?.process)
  const ids = new Set(managed.map(({ id }) => id))
  const leading = routes.filter(({ upstream }) => ids.has(upstream))
  const elsewhere = new Set(routes.filter(({ upstream }) => !ids.has(upstream)).map(({ model }) => model))
  const slugs = new Set(leading.map(({ model }) => model).filter((slug) => !elsewhere.has(slug)))
  return new Set([
    ...managed.map(KINDS.upstreams.nameOf),
    ...leading.map(KINDS.routes.nameOf),
    ...models.filter(({ slug }) => slugs.has(slug)).map(KINDS.models.nameOf),
    ...aliases.filter(({ model = '' }) => slugs.has(model)).map(KINDS.aliases.nameOf),
  ])
}

function withoutEdits(layers: CatalogLayers, declared: CatalogRows): CatalogLayers {
  const rows: CatalogLayers = declared
  return mapKinds((kind) => {
    const names = new Set(rows[kind].map((entry) => NAMES[kind](entry)))
    return layers[kind].filter((entry) => entry.origin !== 'admin' || !names.has(NAMES[kind](entry)))
  })
}

export const isSameEntry = (one: object, other: object) =>
  Bun.deepEquals({ ...one, updatedMs: 0 }, { ...other, updatedMs: 0 })

export const toApplyOptions = <const By extends object>(source: CatalogSource, version: string, by: By) => ({
  ...by,
  origin: source.origin,
  subject: source.path ?? 'built-in',
  digest: toDigest(source, version),
})

/** Includes Tollgate's version, since another version may know other facts. */
export function toDigest(
  { origin, text, modelFiles }: Pick<CatalogSource, 'origin' | 'text' | 'modelFiles'>,
  version: string,
): string {
  const texts = [text ?? '', ...modelFiles.flatMap((file) => [file.name, file.text])]
  return new Bun.CryptoHasher('sha256').update(`${version}\n${origin}\n${texts.join('\n')}`).digest('hex')
}

export const APPLIED_DIGEST = 'catalog_digest'

export const isApplied = (settings: Settings, digest: string) => settings[APPLIED_DIGEST] === digest

/** `changes` is null if the version before it is no longer kept. */
export interface ShownVersion {
  version: CatalogVersion
  changes: Changes['changes'] | null
}

/** @throws `version_not_found`. */
export async function showVersion(store: ConfigStore, number: number): Promise<ShownVersion> {
  const [{ layers, ...version }, before] = await Promise.all([
    readVersion(store, number),
    store.readVersion(number - 1),
  ])
  const from = number === 1 ? NO_LAYERS : before?.layers
  return { version, changes: from ? toChanges(mergeLayers(from), mergeLayers(layers)).changes : null }
}

/** @throws `version_not_found`. */
export async function readVersion(store: ConfigStore, number: number): Promise<KeptCatalog> {
  const kept = await store.readVersion(number)
  if (kept) return kept
  throw new ServiceError(
    { kind: 'version_not_found', number },
    `Catalog version ${number} is unknown or was deleted: only the newest ${MAX_KEPT} are kept.`,
  )
}

export type Reverted = Edited & { revision: string }

/**
 * Restores all layers to a version, or plans that, as a new version. The catalog file is not changed and applies again
 * at the next apply. Entries get their prices back. Throws `version_not_found`.
 */
export async function revertCatalog(
  store: ConfigStore,
  number: number,
  by: EditBy,
  permit?: Permit,
): Promise<Reverted> {
  const { layers: wanted } = await readVersion(store, number)
  return changeCatalog(store, by, { action: 'catalog.revert', subject: `version ${number}` }, (state) => {
    requireState(by, state)
    const layers = mapKinds((kind) => {
      const now = new Map(state.layers[kind].map((entry) => [toKey(kind, entry), entry]))
      return wanted[kind].map((entry) => {
        const current = now.get(toKey(kind, entry))
        if (current && isSameEntry(current, entry)) return current
        return 'updatedMs' in entry ? { ...entry, updatedMs: by.nowMs } : entry
      })
    })
    permit?.(state, { layers, rows: mergeLayers(layers) })
    return { layers, detail: { reverted_to: number }, more: { revision: toStateRevision(state) } }
  })
}
