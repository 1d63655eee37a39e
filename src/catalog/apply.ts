/**
 * Carries a catalog into its layer: what it declares takes the place of what the layer said, and with `prune` the rest of the layer
 * goes. Without a change, nothing is written. Also restores any version that is kept, with all of its layers. Called by `serve`, by
 * commands and by the admin API.
 */
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

/** What a plain apply leaves as it is, and is to be done all the same. */
export interface ApplyWishes {
  /** Whether entries that are no longer declared are deleted; `managed`: those alone whose servers are started here. */
  prune?: boolean | 'managed'
  /** Whether what was changed by hand of what the catalog declares is forgotten. */
  discardEdits?: boolean
}

/** Looks at what would be before it is. Throws a ServiceError where whoever asks may not do that. */
export type Permit = (before: State, after: State) => void

export interface ApplyOptions extends EditBy, ApplyWishes {
  origin: Origin
  permit?: Permit
  /** Which catalog, for the audit row: its path, or `built-in`. */
  subject: string
  /** `toDigest` of its source, kept so that a start can tell that nothing has to be applied. */
  digest: string
}

export interface Applied extends Edited {
  /** Of the catalog that this was, or would be, done to. */
  revision: string
  /** What of it does not count. */
  overridden: Overridden[]
  /** The entries that are no longer declared, and were not pruned. */
  kept: string[]
  /** What was set by hand of rows that are not there: it counts again once they are. */
  unseen: string[]
}

/**
 * Applies a catalog, or plans it. Throws `catalog_missing` for the built-in one where a file was applied before: it stands in for a
 * file, and never comes back beside what one has declared.
 */
export function applyCatalog(store: ConfigStore, catalog: Catalog, options: ApplyOptions): Promise<Applied> {
  const { origin, digest, subject, permit, nowMs, prune = false, discardEdits = false } = options
  return changeCatalog(store, options, { action: 'catalog.apply', subject }, (state) => {
    requireState(options, state)
    if (origin === 'builtin' && KIND_NAMES.some((kind) => state.layers[kind].some((entry) => entry.origin === 'file')))
      throw new ServiceError(
        { kind: 'catalog_missing' },
        'There is no catalog.yaml in the data folder or here, and this database was set up from one.',
      )
    const { layers, prices, declared, kept } = withLayer(state, catalog, { origin, prune, nowMs })
    const wanted = discardEdits && origin !== 'admin' ? withoutEdits(layers, declared) : layers
    const after = { layers: wanted, rows: mergeLayers(wanted) }
    permit?.(state, after)
    const overridden = findOverridden(after.rows, declared)
    return {
      ...{ layers: wanted, prices },
      // What was kept is for the next start to look at.
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
 * The layers with what a catalog declares in one of them, beside the rows that this would be by itself. What built-in entries stand in
 * for a file with goes once there is one. Prices are only ever added: an unchanged one keeps its row.
 */
export function withLayer({ layers, rows }: State, catalog: Catalog, { origin, prune, nowMs }: LayerOptions) {
  const prices: PriceRow[] = []
  const declared = toRows(catalog, { layers, rows }, { origin, nowMs, prices })
  const managed = prune === 'managed' ? namesOfManaged(layers) : null
  const kept: string[] = []
  const rowsOf: CatalogLayers = declared
  const next = mapKinds(<K extends Kind>(kind: K) => {
    const wanted = new Map(rowsOf[kind].map((entry) => [toKey(kind, entry), entry]))
    const staying = layers[kind].flatMap((entry): EntryOf<K>[] => {
      const now = wanted.get(toKey(kind, entry))
      wanted.delete(toKey(kind, entry))
      if (now) return [isSameEntry(entry, now) ? entry : now]
      if (entry.origin === 'builtin' && (origin === 'builtin' || origin === 'file')) return []
      if (entry.origin !== origin) return [entry]
      const name = KINDS[kind].nameOf(entry)
      if (managed ? managed.has(name) : prune === true) return []
      kept.push(name)
      return [entry]
    })
    return [...staying, ...wanted.values()]
  })
  return { layers: next, prices, declared, kept }
}

/**
 * The rows of a layer that says a catalog, seen beside what there is: what a catalog says nothing of, such as when a row was made,
 * carries over. New prices are added to `prices`.
 */
function toRows(catalog: Catalog, { layers, rows }: State, { origin, nowMs, prices }: RowOptions): CatalogRows {
  // As the layer itself has it, else as it counts.
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

/** The row that has a price, and that row where it is new; null where nobody knows what it costs. */
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

/** A file knows seconds; a row that was made within the one that it says was made when it was. */
function toCreatedMs(said: number | null, before: number | undefined, nowMs: number): number {
  if (said === null) return before ?? nowMs
  return before !== undefined && Math.floor(before / 1_000) * 1_000 === said ? before : said
}

/**
 * The entries of files that are there for model servers that are started here: their upstreams, the routes to them, the models that
 * lead nowhere else, and their aliases. They are of no use once the file of their commands is gone.
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

/** The layers without what was changed by hand of rows that a catalog declares. */
function withoutEdits(layers: CatalogLayers, declared: CatalogRows): CatalogLayers {
  const rows: CatalogLayers = declared
  return mapKinds((kind) => {
    const names = new Set(rows[kind].map((entry) => NAMES[kind](entry)))
    return layers[kind].filter((entry) => entry.origin !== 'admin' || !names.has(NAMES[kind](entry)))
  })
}

/** Whether two entries say the same; when they were last written does not count. */
const isSameEntry = (one: object, other: object) => Bun.deepEquals({ ...one, updatedMs: 0 }, { ...other, updatedMs: 0 })

/** How the catalog of a source is applied by this version of the program. */
export const toApplyOptions = <const By extends object>(source: CatalogSource, version: string, by: By) => ({
  ...by,
  origin: source.origin,
  subject: source.path ?? 'built-in',
  digest: toDigest(source, version),
})

/** Names what a catalog says, and the program that read it: another version may know other facts. */
export function toDigest(
  { origin, text, modelFiles }: Pick<CatalogSource, 'origin' | 'text' | 'modelFiles'>,
  version: string,
): string {
  const texts = [text ?? '', ...modelFiles.flatMap((file) => [file.name, file.text])]
  return new Bun.CryptoHasher('sha256').update(`${version}\n${origin}\n${texts.join('\n')}`).digest('hex')
}

/** The setting that holds the digest of the catalog that was applied last. */
export const APPLIED_DIGEST = 'catalog_digest'

/** Whether a catalog of this digest is the one that was applied last. */
export const isApplied = (settings: Settings, digest: string) => settings[APPLIED_DIGEST] === digest

/** A kept state, and what it changed in the one kept before it; null where that is not kept any more. */
export interface ShownVersion {
  version: CatalogVersion
  changes: Changes['changes'] | null
}

/** Tells what a kept state changed. Throws `version_not_found`. */
export async function showVersion(store: ConfigStore, number: number): Promise<ShownVersion> {
  const [{ layers, ...version }, before] = await Promise.all([
    readVersion(store, number),
    store.readVersion(number - 1),
  ])
  const from = number === 1 ? NO_LAYERS : before?.layers
  return { version, changes: from ? toChanges(mergeLayers(from), mergeLayers(layers)).changes : null }
}

async function readVersion(store: ConfigStore, number: number): Promise<KeptCatalog> {
  const kept = await store.readVersion(number)
  if (kept) return kept
  throw new ServiceError(
    { kind: 'version_not_found', number },
    `There is no version ${number} of the catalogue on record, which keeps the newest ${MAX_KEPT}.`,
  )
}

export type Reverted = Edited & { revision: string }

/**
 * Makes all layers what they were after a version, or plans that, as a change that can be reverted itself. The file that a server goes
 * by stays as it is, and counts again once it is applied. Prices are on record: entries come back with theirs. Throws
 * `version_not_found`.
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
