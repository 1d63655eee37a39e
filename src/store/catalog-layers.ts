/**
 * Catalog layers, weakest first: built-in < discovered < file < manual (`ORIGINS`). Manual entries have only changed fields, unless the row was created
 * manually; all others are whole rows. Effective rows are merged from them.
 */

import { type FieldChanges, toChanged } from '../domain/changes.ts'
import type { Deadlines } from '../domain/deadlines.ts'
import type { UpstreamSettings } from '../domain/dialects.ts'
import { ORIGINS, type Origin } from '../domain/models.ts'
import type { AliasRow, CatalogRows, ModelRow, RouteRow, UpstreamRow } from './catalog-rows.ts'
import { isSameCredentialBinding } from './credential-binding.ts'

type Sparse<Row, Key extends keyof Row> = Pick<Row, Key> & Partial<Row> & { origin: Origin }

export type UpstreamEntry = Omit<Sparse<UpstreamRow, 'id'>, 'options' | 'deadlines'> & {
  /** In an entry that changes a row, null removes a field. */
  options?: FieldChanges<UpstreamSettings>
  deadlines?: FieldChanges<Deadlines>
}
export type ModelEntry = Sparse<ModelRow, 'slug'>
export type RouteEntry = Omit<Sparse<RouteRow, 'model' | 'upstream' | 'upstreamModel'>, 'options'> & {
  options?: FieldChanges<RouteRow['options']>
}
export type AliasEntry = Sparse<AliasRow, 'alias'>

/** Each layer has at most one entry per name; in order of creation. */
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

export const NAMES: { readonly [K in Kind]: (entry: EntryOf<K>) => string } = {
  upstreams: ({ id }) => id,
  models: ({ slug }) => slug,
  routes: ({ model, upstream, upstreamModel }) => `${model} ${upstream} ${upstreamModel}`,
  aliases: ({ alias }) => alias,
}

export const KIND_NAMES = ['upstreams', 'models', 'routes', 'aliases'] as const satisfies Kind[]

export const mapKinds = (entriesOf: <K extends Kind>(kind: K) => EntryOf<K>[]): CatalogLayers => ({
  upstreams: entriesOf('upstreams'),
  models: entriesOf('models'),
  routes: entriesOf('routes'),
  aliases: entriesOf('aliases'),
})

export const toKey = <K extends Kind>(kind: K, entry: EntryOf<K>): string => `${entry.origin} ${NAMES[kind](entry)}`

/** A field of whole rows only. */
const MARKS = { upstreams: 'createdMs', models: 'createdMs', routes: 'fromList', aliases: 'model' } as const satisfies {
  [K in Kind]: keyof RowOf<K>
}

/** Defaults of fields that older rows lack. Add new fields here, unless a migration fills them. */
const BEFORE = {
  upstreams: {},
  models: { fromList: [] },
  routes: { options: {}, fromList: [] },
  aliases: {},
} satisfies { [K in Kind]: Partial<RowOf<K>> }

export const withLaterFields = <K extends Kind>(kind: K, row: EntryOf<K>): EntryOf<K> => ({ ...BEFORE[kind], ...row })

export const isWhole = <K extends Kind>(kind: K, entry: EntryOf<K>): entry is EntryOf<K> & RowOf<K> =>
  entry.origin !== 'admin' || Object.hasOwn(entry, MARKS[kind])

/** Effective rows; routes only with their model and upstream. */
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

/** Output counts toward the context window; two layers may exceed it together. */
const withinContext = (row: ModelRow): ModelRow =>
  row.maxOutputLength <= row.contextLength ? row : { ...row, maxOutputLength: row.contextLength }

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

/** A credential belongs to its layer's binding: an entry that moves the upstream without naming a credential drops it. */
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

/** The strongest entry below the manual one. */
export const findBelow = <Entry extends { origin: Origin }>(own: readonly Entry[]): Entry | undefined =>
  own.filter(({ origin }) => origin !== 'admin').sort((a, b) => rankOf(b) - rankOf(a))[0]
