/** Models that are changed by hand: a row becomes the administrator's, until it is given back. */
import { mintTag } from '../domain/id.ts'
import type { Feature } from '../domain/models.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { PricingItem } from '../domain/usage.ts'
import type { CatalogRows, KeptCatalog, ModelRow, PriceRow, RouteRow } from '../store/catalog-rows.ts'
import type { ConfigStore } from '../store/config-store.ts'
import { APPLIED_DIGEST } from './apply.ts'
import { byCondition } from './complete.ts'
import { type Decision, type EditBy, type Edited, editCatalog, NO_WRITE, requireRow, requireValid } from './edit.ts'
import { findModel, isRoute } from './find.ts'
import { isSameRow } from './states.ts'

/** What is left out stays as it is. */
export interface ModelChanges {
  pricing?: PricingItem[]
  supportedFeatures?: Feature[]
  contextLength?: number
  maxOutputLength?: number
  enabled?: boolean
  listed?: boolean
}

/** Changes a model, by its slug or an alias. Throws `invalid` with the field, `model_not_found`. */
export function editModel(store: ConfigStore, name: string, changes: ModelChanges, by: EditBy): Promise<Edited> {
  return editCatalog(store, by, { action: 'models.edit', subject: name }, (rows) => {
    const before = findModel(rows, name)
    requireRow(by, 'models', before)
    const given = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined))
    const changed: ModelRow = { ...before, ...given }
    requireValid(withModel(rows, changed), ['models', before.slug])
    const { rows: prices, ...price } = toPrice(
      before,
      changed.pricing,
      { model: before.slug, upstream: null },
      by.nowMs,
    )
    const row: ModelRow = { ...changed, ...price, origin: 'admin', updatedMs: by.nowMs }
    if (isSameRow({ ...before, origin: 'admin' }, row)) return { write: NO_WRITE }
    return { write: { ...NO_WRITE, models: { ...NO_WRITE.models, update: [row] }, prices } }
  })
}

/** A model with all that is said of it: its routes, and where they lead. */
export function withModel({ upstreams, routes }: CatalogRows, model: ModelRow, own?: readonly RouteRow[]): CatalogRows {
  const leading = own ?? routes.filter((route) => route.model === model.slug)
  const used = new Set(leading.map(({ upstream }) => upstream))
  return { upstreams: upstreams.filter(({ id }) => used.has(id)), models: [model], routes: [...leading], aliases: [] }
}

/** Prices in the order in which they hold, with the row that has them: a new one where they are new. */
export function toPrice(
  before: Pick<RouteRow, 'pricing' | 'priceId'> | undefined,
  pricing: PricingItem[],
  of: Pick<PriceRow, 'model' | 'upstream'>,
  createdMs: number,
): { pricing: PricingItem[]; priceId: string; rows: PriceRow[] } {
  const sorted = pricing.toSorted(byCondition)
  if (before?.priceId && Bun.deepEquals(before.pricing, sorted))
    return { pricing: sorted, priceId: before.priceId, rows: [] }
  const row: PriceRow = { ...of, pricing: sorted, id: mintTag(), createdMs }
  return { pricing: sorted, priceId: row.id, rows: [row] }
}

/**
 * Gives a model back to whoever had it before it was changed by hand: its row and its routes become what they were then, those that
 * were made by hand go, and a file that declares it has its way again from its next apply on. Throws `model_not_found`, and
 * `no_earlier_state` where no state is kept in which it was somebody else's.
 */
export async function resetModel(store: ConfigStore, name: string, by: EditBy): Promise<Edited> {
  const { slug } = findModel(await store.readCatalog(), name)
  const earlier = await findEarlier(store, slug)
  return editCatalog(store, by, { action: 'models.reset', subject: slug }, (rows): Decision => {
    const row = findModel(rows, slug)
    requireRow(by, 'models', row)
    const byHand = rows.routes.filter(({ model, origin }) => model === slug && origin === 'admin')
    if (row.origin !== 'admin' && byHand.length === 0) return { write: NO_WRITE }
    if (earlier === null)
      throw new ServiceError(
        { kind: 'no_earlier_state', model: slug },
        `No version of the catalogue is kept in which ${slug} was not an administrator's: there is nothing to give it back to.`,
      )
    const upstreams = new Set(rows.upstreams.map(({ id }) => id))
    const wasOf = (route: RouteRow) => earlier.routes.find((one) => isRoute(one, route))
    const model = row.origin === 'admin' ? [{ ...earlier.model, updatedMs: by.nowMs }] : []
    return {
      write: {
        ...NO_WRITE,
        models: { ...NO_WRITE.models, update: model },
        routes: {
          create: earlier.routes.filter(
            (route) => upstreams.has(route.upstream) && !rows.routes.some((one) => isRoute(one, route)),
          ),
          update: byHand.flatMap((route) => wasOf(route) ?? []),
          delete: byHand.filter((route) => wasOf(route) === undefined),
        },
      },
      // The file may say something else by now: the next start is to look at it.
      settings: { [APPLIED_DIGEST]: '' },
    }
  })
}

interface Earlier {
  model: ModelRow
  routes: RouteRow[]
}

/** The newest state in which a model was there, and nothing of it an administrator's. One after the other: each is unpacked for it. */
async function findEarlier(store: ConfigStore, slug: string): Promise<Earlier | null> {
  for (const { number } of (await store.readVersions()).toReversed()) {
    const found = toEarlier(await store.readVersion(number), slug)
    if (found) return found
    await Bun.sleep(0)
  }
  return null
}

function toEarlier(kept: KeptCatalog | null, slug: string): Earlier | null {
  const model = kept?.rows.models.find((row) => row.slug === slug)
  const routes = kept?.rows.routes.filter((row) => row.model === slug) ?? []
  if (model === undefined || [model, ...routes].some(({ origin }) => origin === 'admin')) return null
  return { model, routes }
}
