/** Finds what somebody means of the catalogue's rows, or says that there is no such thing. Pure. */
import { ServiceError } from '../domain/service-error.ts'
import type { CatalogRows, ModelRow, RouteRow, UpstreamRow } from '../store/catalog-rows.ts'
import { quote } from '../validation/explain.ts'
import { closest } from './entry.ts'

/** @param name a slug or an alias. Throws `model_not_found`. */
export function findModel({ models, aliases }: CatalogRows, name: string): ModelRow {
  const slug = aliases.find(({ alias }) => alias === name)?.model ?? name
  const found = models.find((row) => row.slug === slug)
  if (found) return found
  const hint = closest(name, [...models.map((row) => row.slug), ...aliases.map(({ alias }) => alias)])
  throw new ServiceError({ kind: 'model_not_found', model: name }, `There is no model ${quote(name)}${hint}.`)
}

/** Throws `upstream_not_found`. */
export function findUpstream({ upstreams }: Pick<CatalogRows, 'upstreams'>, id: string): UpstreamRow {
  const found = upstreams.find((row) => row.id === id)
  if (found) return found
  const hint = closest(
    id,
    upstreams.map((row) => row.id),
  )
  throw new ServiceError({ kind: 'upstream_not_found', upstream: id }, `There is no upstream ${quote(id)}${hint}.`)
}

/** What a route is named by. */
export type RouteId = Pick<RouteRow, 'model' | 'upstream' | 'upstreamModel'>

export const isRoute = (row: RouteRow, { model, upstream, upstreamModel }: RouteId): boolean =>
  row.model === model && row.upstream === upstream && row.upstreamModel === upstreamModel
