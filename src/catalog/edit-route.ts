/** Routes that are made, changed or deleted by hand. */

import { type FieldChanges, toChanged, toDefined } from '../domain/changes.ts'
import type { Feature, RouteSettings } from '../domain/models.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { PricingItem } from '../domain/usage.ts'
import type { RouteRow } from '../store/catalog-rows.ts'
import type { ConfigStore } from '../store/config-store.ts'
import { type EditBy, type Edited, editCatalog, NO_WRITE, requireRow, requireValid } from './edit.ts'
import { toPrice, withModel } from './edit-model.ts'
import { requireOwn } from './edit-upstream.ts'
import { findModel, findUpstream, isRoute, type RouteId } from './find.ts'
import { requirePriced } from './priced.ts'
import { toRouteName } from './rows-as-entries.ts'
import { isSameRow, toRowsAfter } from './states.ts'

/** What is left out stays as it is; of a route that is made, it is as by default. null = as its model. */
export interface RouteChanges {
  priority?: number
  weight?: number
  pricing?: PricingItem[] | null
  contextLength?: number | null
  maxOutputLength?: number | null
  supportedFeatures?: Feature[] | null
  /** How its model thinks there; null = nothing is said of it. */
  options?: FieldChanges<RouteSettings>
  enabled?: boolean
}

const PLAIN = {
  ...{ priority: 0, weight: 1, pricing: null, priceId: null, contextLength: null, maxOutputLength: null },
  ...{ supportedFeatures: null, options: {}, fromList: [], enabled: true, origin: 'admin' },
} as const satisfies Partial<RouteRow>

/** Makes a route, or changes it. Throws `invalid` with the field, `model_not_found`, `upstream_not_found`. */
export function setRoute(store: ConfigStore, id: RouteId, changes: RouteChanges, by: EditBy): Promise<Edited> {
  return editCatalog(store, by, { action: 'routes.set', subject: toSubject(id) }, (rows) => {
    const model = findModel(rows, id.model)
    findUpstream(rows, id.upstream)
    const key = { ...id, model: model.slug }
    const before = rows.routes.find((route) => isRoute(route, key))
    requireRow(by, 'routes', before ?? { ...PLAIN, ...key })
    const given = toDefined({ ...changes, options: toChanged(before?.options ?? {}, changes.options ?? {}) })
    const changed: RouteRow = { ...PLAIN, ...before, ...key, ...given, origin: 'admin' }
    const others = rows.routes.filter((route) => route.model === model.slug && !isRoute(route, key))
    // Last, so that it has the last place among them.
    requireValid(withModel(rows, model, [...others, changed]), ['models', model.slug, 'routes', others.length])
    const of = { model: model.slug, upstream: id.upstream }
    const { rows: prices, ...price } =
      changed.pricing === null
        ? { rows: [], pricing: null, priceId: null }
        : toPrice(before, changed.pricing, of, by.nowMs)
    const row: RouteRow = { ...changed, ...price }
    if (before && isSameRow({ ...before, origin: 'admin' }, row)) return { write: NO_WRITE }
    const routes = { ...NO_WRITE.routes, ...(before ? { update: [row] } : { create: [row] }) }
    const write = { ...NO_WRITE, routes, prices }
    requirePriced(toRowsAfter(rows, write), (route) => isRoute(route, key), 'pricing')
    return { write }
  })
}

/**
 * Deletes a route that an administrator has made. Throws `model_not_found`, `route_not_found`; `declared_elsewhere` for one that is
 * not an administrator's; `invalid` for the last one of its model.
 */
export function deleteRoute(store: ConfigStore, id: RouteId, by: EditBy): Promise<Edited> {
  return editCatalog(store, by, { action: 'routes.delete', subject: toSubject(id) }, (rows) => {
    const { slug } = findModel(rows, id.model)
    const own = rows.routes.filter(({ model }) => model === slug)
    const row = own.find((route) => isRoute(route, { ...id, model: slug }))
    if (!row) throw new ServiceError({ kind: 'route_not_found' }, `There is no ${toRouteName({ ...id, model: slug })}.`)
    requireRow(by, 'routes', row)
    requireOwn(row, 'This route')
    if (own.length > 1) return { write: { ...NO_WRITE, routes: { ...NO_WRITE.routes, delete: [row] } } }
    const message = `This is the only route of ${slug}: give it another one first, or disable the model.`
    throw new ServiceError({ kind: 'invalid', field: 'route' }, message)
  })
}

const toSubject = ({ model, upstream, upstreamModel }: RouteId) => `${model} on ${upstream} (${upstreamModel})`
