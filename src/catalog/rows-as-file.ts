/** The rows of the catalogue as the values of a `catalog.yaml`: what a file would say by itself is left out. Pure. */
import type { Fields } from '../domain/changes.ts'
import type { CatalogRows, UpstreamRow } from '../store/catalog-rows.ts'
import { withoutNull } from './changes.ts'
import { toAliasFields, toModelFields, toRouteFields, toUpstreamFields } from './rows-as-entries.ts'

export interface FileEntries {
  version: 1
  upstreams: Record<string, Fields>
  models: Record<string, Fields>
  aliases?: Record<string, Fields | string>
}

/** What an entry says that says nothing of it. */
const UPSTREAM = { local: false, enabled: true }
const MODEL = { enabled: true, listed: true, from_wildcard: false }
const ROUTE = { priority: 0, weight: 1, enabled: true }

export function toFileEntries({ upstreams, models, routes, aliases }: CatalogRows): FileEntries {
  const routesOf = Map.groupBy(routes, ({ model }) => model)
  const entries: FileEntries = {
    version: 1,
    upstreams: Object.fromEntries(upstreams.map((row) => [row.id, toNested(toOwnFields(row))])),
    models: Object.fromEntries(
      models.map((row) => {
        const own = (routesOf.get(row.slug) ?? []).map((route) => without(ROUTE, toRouteFields(route)))
        return [row.slug, { ...without(MODEL, toModelFields(row)), routes: own }]
      }),
    ),
  }
  if (aliases.length === 0) return entries
  const names = aliases.map((row): [string, Fields | string] => [
    row.alias,
    row.listed ? row.model : toAliasFields(row),
  ])
  return { ...entries, aliases: Object.fromEntries(names) }
}

/** What a preset says is not said again. */
function toOwnFields(row: UpstreamRow): Fields {
  const { dialect, ...rest } = without(UPSTREAM, toUpstreamFields(row))
  return row.options.preset === undefined ? { dialect, ...rest } : rest
}

function without(defaults: Fields, fields: Fields): Fields {
  const own = Object.entries(withoutNull(fields)).filter(([name, value]) => defaults[name] !== value)
  return Object.fromEntries(own)
}

/** Deadlines have names of their own in the fields of an upstream, and are a map in the file. */
function toNested(fields: Fields): Fields {
  const isDeadline = (name: string) => name.startsWith('deadlines.')
  const own = Object.entries(fields).filter(([name]) => !isDeadline(name))
  const deadlines = Object.entries(fields).filter(([name]) => isDeadline(name))
  if (deadlines.length === 0) return Object.fromEntries(own)
  const nested = deadlines.map(([name, value]) => [name.slice('deadlines.'.length), value])
  return Object.fromEntries([...own, ['deadlines', Object.fromEntries(nested)]])
}
