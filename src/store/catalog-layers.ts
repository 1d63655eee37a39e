/**
 * The catalog in layers, weakest first: built in < discovered < file < by hand (`ORIGINS`). A layer has entries; those of the first
 * three say all of a row, one by hand says what was set, or all of a row that was made by hand. What counts is merged from them. Pure.
 */

import { type FieldChanges, toChanged } from '../domain/changes.ts'
import type { Deadlines } from '../domain/deadlines.ts'
import type { UpstreamSettings } from '../domain/dialects.ts'
import { ORIGINS, type Origin } from '../domain/models.ts'
import type { AliasRow, CatalogRows, ModelRow, RouteRow, UpstreamRow } from './catalog-rows.ts'
import { isSameCredentialBinding } from './credential-binding.ts'

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

/** What every row of a kind says, and no entry that changes one. */
const MARKS = { upstreams: 'createdMs', models: 'createdMs', routes: 'fromList', aliases: 'model' } as const satisfies {
  [K in Kind]: keyof RowOf<K>
}

/** What a row is that was kept before it had a field. A new field stands here, unless all rows are migrated. */
const BEFORE = {
  upstreams: {},
  models: { fromList: [] },
  routes: { options: {}, fromList: [] },
  aliases: {},
} satisfies { [K in Kind]: Partial<RowOf<K>> }

/** A row that was kept earlier, with what it did not know. */
export const withLaterFields = <K extends Kind>(kind: K, row: EntryOf<K>): EntryOf<K> => ({ ...BEFORE[kind], ...row })

/** Whether an entry says all of its row. */
export const isWhole = <K extends Kind>(kind: K, entry: EntryOf<K>): entry is EntryOf<K> & RowOf<K> =>
  entry.origin !== 'admin' || Object.hasOwn(entry, MARKS[kind])

/** The rows that count. A route is one where there are its model and its upstream. */
export function mergeLayers(layers: CatalogLayers): CatalogRows {
  const upstreams = merge('upstreams', layers.upstreams, changeUpstream)
  const models = merge('models', layers.models, (row, entry) => ({ ...row, ...entry })).map(withinContext)
  const routes = merge('routes', layers.routes, (row, { options = {}, ...entry }) => ({
    ...{ ...row, ...entry },
    options: toChanged(row.options, options),
  }))
  const aliases = merge('aliases', layers.aliases, (row, entry) => ({ ...row, ...entry }))
  const ids = new Set(upstreams.map(({ id }) => id))
  const bySlug = new Map(models.map((row) => [row.slug, row]))
  return {
    ...{ upstreams, models, aliases },
    routes: routes.flatMap((route) => {
      const model = bySlug.get(route.model)
      return model && ids.has(route.upstream) ? withinModel(route, model) : []
    }),
  }
}

/** What is written stands in the context: layers that each keep to that may not do so together. */
const withinContext = (row: ModelRow): ModelRow =>
  row.maxOutputLength <= row.contextLength ? row : { ...row, maxOutputLength: row.contextLength }

/** A route is no longer than its model, whichever layers say so. */
function withinModel(route: RouteRow, model: ModelRow): RouteRow {
  const isLonger = (route.contextLength ?? 0) > model.contextLength
  const writesMore = (route.maxOutputLength ?? 0) > model.maxOutputLength
  if (!isLonger && !writesMore) return route
  return {
    ...route,
    contextLength: isLonger ? null : route.contextLength,
    maxOutputLength: writesMore ? null : route.maxOutputLength,
  }
}

/** A credential goes to the place that its layer has it for: what moves the row, and says none, has none. */
function changeUpstream(row: UpstreamRow, { options = {}, deadlines = {}, ...entry }: UpstreamEntry): UpstreamRow {
  const changed: UpstreamRow = {
    ...{ ...row, ...entry },
    options: toChanged(row.options, options),
    deadlines: toChanged(row.deadlines, deadlines),
  }
  return entry.apiKeyRef !== undefined || isSameCredentialBinding(row, changed)
    ? changed
    : { ...changed, apiKeyRef: null }
}

const rankOf = ({ origin }: { origin: Origin }) => ORIGINS.indexOf(origin)

function merge<K extends Kind>(
  kind: K,
  entries: readonly EntryOf<K>[],
  change: (row: RowOf<K>, entry: EntryOf<K>) => RowOf<K>,
): RowOf<K>[] {
  return [...Map.groupBy(entries, NAMES[kind]).values()].flatMap((own) => {
    let row: RowOf<K> | null = null
    for (const entry of own.length === 1 ? own : own.toSorted((a, b) => rankOf(a) - rankOf(b)))
      if (isWhole(kind, entry)) row = entry
      else if (row !== null) row = change(row, entry)
    return row ?? []
  })
}

/** What is below a row that was changed by hand: the strongest entry of another layer. */
export const findBelow = <Entry extends { origin: Origin }>(own: readonly Entry[]): Entry | undefined =>
  own.filter(({ origin }) => origin !== 'admin').sort((a, b) => rankOf(b) - rankOf(a))[0]
