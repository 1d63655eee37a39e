/**
 * The catalog in layers, weakest first: built in < discovered < file < by hand (`ORIGINS`). A layer has entries; those of the first
 * three say all of a row, one by hand says what was set, or all of a row that was made by hand. What counts is merged from them. Pure.
 */

import { type FieldChanges, toChanged } from '../domain/changes.ts'
import type { Deadlines } from '../domain/deadlines.ts'
import type { UpstreamSettings } from '../domain/dialects.ts'
import { ORIGINS, type Origin } from '../domain/models.ts'
import type { AliasRow, CatalogRows, ModelRow, RouteRow, UpstreamRow } from './catalog-rows.ts'
import { isSameCredentialPlace } from './credential-place.ts'

/** A row as one layer has it. */
type Sparse<Row, Key extends keyof Row> = Pick<Row, Key> & Partial<Row> & { origin: Origin }

export type UpstreamEntry = Omit<Sparse<UpstreamRow, 'id'>, 'options' | 'deadlines'> & {
  /** Of an entry that changes a row, null takes a field away. */
  options?: FieldChanges<UpstreamSettings>
  deadlines?: FieldChanges<Deadlines>
}
export type ModelEntry = Sparse<ModelRow, 'slug'>
export type RouteEntry = Omit<Sparse<RouteRow, 'model' | 'upstream' | 'upstreamModel'>, 'options'> & {
  options?: FieldChanges<RouteRow['options']>
}
export type AliasEntry = Sparse<AliasRow, 'alias'>

/** The entries of all layers, each kind in the order in which they were made; of one name there is one in each layer. */
export interface CatalogLayers {
  upstreams: UpstreamEntry[]
  models: ModelEntry[]
  routes: RouteEntry[]
  aliases: AliasEntry[]
}

export type Kind = keyof CatalogLayers
export type EntryOf<K extends Kind> = CatalogLayers[K][number]
type RowOf<K extends Kind> = CatalogRows[K][number]

export const NO_LAYERS: CatalogLayers = { upstreams: [], models: [], routes: [], aliases: [] }

/** What entries and rows of a kind are named by; of one name, in each layer there is one. */
export const NAMES: { readonly [K in Kind]: (entry: EntryOf<K>) => string } = {
  upstreams: ({ id }) => id,
  models: ({ slug }) => slug,
  routes: ({ model, upstream, upstreamModel }) => `${model} ${upstream} ${upstreamModel}`,
  aliases: ({ alias }) => alias,
}

export const KIND_NAMES = ['upstreams', 'models', 'routes', 'aliases'] as const satisfies Kind[]

/** Makes layers kind by kind. */
export const mapKinds = (entriesOf: <K extends Kind>(kind: K) => EntryOf<K>[]): CatalogLayers => ({
  upstreams: entriesOf('upstreams'),
  models: entriesOf('models'),
  routes: entriesOf('routes'),
  aliases: entriesOf('aliases'),
})

/** By which an entry is found among those of its kind: its layer, and its name there. */
export const toKey = <K extends Kind>(kind: K, entry: EntryOf<K>): string => `${entry.origin} ${NAMES[kind](entry)}`

/** A new field of a row stands here, too. */
const FIELDS = {
  upstreams: fieldsOf<UpstreamRow>()({
    ...{ id: 1, dialect: 1, baseUrl: 1, apiKeyRef: 1, local: 1, enabled: 1, deadlines: 1, options: 1 },
    ...{ origin: 1, createdMs: 1, updatedMs: 1 },
  }),
  models: fieldsOf<ModelRow>()({
    ...{ slug: 1, name: 1, ownedBy: 1, contextLength: 1, maxOutputLength: 1, inputModalities: 1, outputModalities: 1 },
    ...{ supportedFeatures: 1, pricing: 1, priceId: 1, enabled: 1, listed: 1, fromWildcard: 1, fromList: 1 },
    ...{ origin: 1, createdMs: 1, updatedMs: 1 },
  }),
  routes: fieldsOf<RouteRow>()({
    ...{ model: 1, upstream: 1, upstreamModel: 1, priority: 1, weight: 1, pricing: 1, priceId: 1, contextLength: 1 },
    ...{ maxOutputLength: 1, supportedFeatures: 1, options: 1, fromList: 1, enabled: 1, origin: 1 },
  }),
  aliases: fieldsOf<AliasRow>()({ alias: 1, model: 1, listed: 1, origin: 1 }),
} satisfies Record<Kind, readonly string[]>

function fieldsOf<Row>() {
  return (fields: Record<keyof Row, 1>): readonly string[] => Object.keys(fields)
}

/** Whether an entry says all of its row. */
export function isWhole(kind: 'upstreams', entry: UpstreamEntry): entry is UpstreamRow
export function isWhole(kind: 'models', entry: ModelEntry): entry is ModelRow
export function isWhole(kind: 'routes', entry: RouteEntry): entry is RouteRow
export function isWhole(kind: 'aliases', entry: AliasEntry): entry is AliasRow
export function isWhole(kind: Kind, entry: object): boolean {
  return FIELDS[kind].every((field) => Object.hasOwn(entry, field))
}

/** The rows that count. A route is one where there are its model and its upstream. */
export function mergeLayers(layers: CatalogLayers): CatalogRows {
  const upstreams = merge<'upstreams'>(
    layers.upstreams,
    NAMES.upstreams,
    (entry) => isWhole('upstreams', entry),
    changeUpstream,
  )
  const models = merge<'models'>(
    layers.models,
    NAMES.models,
    (entry) => isWhole('models', entry),
    (row, entry) => ({ ...row, ...entry }),
  )
  const routes = merge<'routes'>(
    layers.routes,
    NAMES.routes,
    (entry) => isWhole('routes', entry),
    (row, { options = {}, ...entry }) => ({ ...row, ...entry, options: toChanged(row.options, options) }),
  )
  const aliases = merge<'aliases'>(
    layers.aliases,
    NAMES.aliases,
    (entry) => isWhole('aliases', entry),
    (row, entry) => ({ ...row, ...entry }),
  )
  const [ids, slugs] = [new Set(upstreams.map(({ id }) => id)), new Set(models.map(({ slug }) => slug))]
  return {
    ...{ upstreams, models, aliases },
    routes: routes.filter(({ model, upstream }) => slugs.has(model) && ids.has(upstream)),
  }
}

/** A credential goes to the place that its layer has it for: what moves the row, and says none, has none. */
function changeUpstream(row: UpstreamRow, { options = {}, deadlines = {}, ...entry }: UpstreamEntry): UpstreamRow {
  const changed: UpstreamRow = {
    ...{ ...row, ...entry },
    options: toChanged(row.options, options),
    deadlines: toChanged(row.deadlines, deadlines),
  }
  return entry.apiKeyRef !== undefined || isSameCredentialPlace(row, changed)
    ? changed
    : { ...changed, apiKeyRef: null }
}

const rankOf = ({ origin }: { origin: Origin }) => ORIGINS.indexOf(origin)

function merge<K extends Kind>(
  entries: readonly EntryOf<K>[],
  nameOf: (entry: EntryOf<K>) => string,
  isRow: (entry: EntryOf<K>) => entry is EntryOf<K> & RowOf<K>,
  change: (row: RowOf<K>, entry: EntryOf<K>) => RowOf<K>,
): RowOf<K>[] {
  return [...Map.groupBy(entries, nameOf).values()].flatMap((own) => {
    let row: RowOf<K> | null = null
    for (const entry of own.length === 1 ? own : own.toSorted((a, b) => rankOf(a) - rankOf(b)))
      if (isRow(entry)) row = entry
      else if (row !== null) row = change(row, entry)
    return row ?? []
  })
}

/** What is below a row that was changed by hand: the strongest entry of another layer. */
export const findBelow = <Entry extends { origin: Origin }>(own: readonly Entry[]): Entry | undefined =>
  own.filter(({ origin }) => origin !== 'admin').sort((a, b) => rankOf(b) - rankOf(a))[0]
