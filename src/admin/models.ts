/**
 * Models, as the commands list and show them, and changed by hand, with their routes: `/admin/api/models`. A slug has a slash, and so
 * may an upstream's name of a model: they are escaped in a path. With `?plan=true` a change is told and not made.
 */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { EditBy, Edited } from '../catalog/edit.ts'
import { editModel, type ModelChanges, resetModel } from '../catalog/edit-model.ts'
import { deleteRoute, type RouteChanges, setRoute } from '../catalog/edit-route.ts'
import { findModel } from '../catalog/find.ts'
import { toAliasDocuments, toModelDocuments, toShownModel } from '../documents/model.ts'
import { toKnown } from '../documents/readiness.ts'
import { toUpstreamDocuments } from '../documents/upstream.ts'
import { toDefined } from '../domain/changes.ts'
import { EFFORTS, type Feature, THINKING } from '../domain/models.ts'
import type { PricingItem } from '../domain/usage.ts'
import type { CatalogRows } from '../store/catalog-rows.ts'
import { access } from './access.ts'
import { type ByHand, changesByHand } from './by-hand.ts'
import type { AdminDeps } from './deps.ts'
import { exactly, oneOf, orNone, PlanQuery } from './schema.ts'

/** The rules of a catalogue's file say which fields a price has, and which features there are. */
const Pricing = Type.Unsafe<PricingItem[]>(Type.Array(Type.Record(Type.String(), Type.Unknown()), { minItems: 1 }))
const Features = Type.Unsafe<Feature[]>(Type.Array(Type.String()))

const ModelPatch = exactly({
  pricing: Type.Optional(Pricing),
  supported_features: Type.Optional(Features),
  context_length: Type.Optional(Type.Integer()),
  max_output_length: Type.Optional(Type.Integer()),
  enabled: Type.Optional(Type.Boolean()),
  listed: Type.Optional(Type.Boolean()),
})

const RouteBody = exactly({
  priority: Type.Optional(Type.Integer()),
  weight: Type.Optional(Type.Integer()),
  /** Null for all of these: as the model. */
  pricing: orNone(Pricing),
  context_length: orNone(Type.Integer()),
  max_output_length: orNone(Type.Integer()),
  supported_features: orNone(Features),
  enabled: Type.Optional(Type.Boolean()),
  /** Null for these: nothing is said of it. */
  thinking: orNone(oneOf(THINKING)),
  efforts: orNone(Type.Array(oneOf(EFFORTS), { minItems: 1 })),
  thinking_off: orNone(Type.Boolean()),
  thinking_unasked: orNone(Type.Boolean()),
  sampling: orNone(Type.Boolean()),
})

/** The server knows whether it has them. */
const NOT_NEEDED = new Map()

export function modelsController(deps: AdminDeps) {
  const { store, serving } = deps
  const byHand = changesByHand(deps)
  const toDocuments = (rows: CatalogRows) =>
    toModelDocuments(rows, toKnown(toUpstreamDocuments(rows.upstreams, NOT_NEEDED, serving.upstreams()), true))

  const show = async (name: string) => {
    const rows = await store.readCatalog()
    const { slug } = findModel(rows, name)
    const prices = await store.readPrices(slug)
    // Of one model alone: there may be thousands.
    const own = { ...rows, models: rows.models.filter((row) => row.slug === slug) }
    return toDocuments(own).map((document) => toShownModel(document, rows, prices))[0]
  }

  /** Tells what has changed or would, and how the model is now. */
  const change = async (slug: string, asked: ByHand, work: (by: EditBy) => Promise<Edited>) => ({
    ...(await byHand(asked, work)),
    model: await show(slug),
  })

  return new Elysia({ name: 'models' })
    .use(access())
    .get(
      '/models',
      async () => {
        const rows = await store.readCatalog()
        return { models: toDocuments(rows), aliases: toAliasDocuments(rows) }
      },
      { least: 'viewer' },
    )
    .get('/models/:slug', ({ params: { slug } }) => show(slug), { least: 'viewer' })
    .patch(
      '/models/:slug',
      ({ params: { slug }, body, ...asked }) =>
        change(slug, asked, (actor) => editModel(store, slug, toModelChanges(body), actor)),
      { least: 'editor', body: ModelPatch, query: PlanQuery },
    )
    .post(
      '/models/:slug/reset',
      ({ params: { slug }, ...asked }) => change(slug, asked, (actor) => resetModel(store, slug, actor)),
      { least: 'editor', query: PlanQuery },
    )
    .put(
      '/models/:slug/routes/:upstream/:upstream_model',
      ({ params, body, ...asked }) =>
        change(params.slug, asked, (actor) => setRoute(store, toRouteId(params), toRouteChanges(body), actor)),
      { least: 'editor', body: RouteBody, query: PlanQuery },
    )
    .delete(
      '/models/:slug/routes/:upstream/:upstream_model',
      ({ params, ...asked }) => change(params.slug, asked, (actor) => deleteRoute(store, toRouteId(params), actor)),
      { least: 'editor', query: PlanQuery },
    )
}

const toRouteId = (params: { slug: string; upstream: string; upstream_model: string }) => ({
  model: params.slug,
  upstream: params.upstream,
  upstreamModel: params.upstream_model,
})

function toModelChanges(body: Static<typeof ModelPatch>): ModelChanges {
  const { supported_features: supportedFeatures, context_length: contextLength, ...others } = body
  const { max_output_length: maxOutputLength, ...same } = others
  return toDefined({ ...same, supportedFeatures, contextLength, maxOutputLength })
}

function toRouteChanges(body: Static<typeof RouteBody>): RouteChanges {
  const { supported_features: supportedFeatures, context_length: contextLength, ...others } = body
  const { max_output_length: maxOutputLength, thinking, efforts, ...rest } = others
  const { thinking_off, thinking_unasked, sampling, ...same } = rest
  const options = toDefined({ thinking, efforts, thinking_off, thinking_unasked, sampling })
  return { ...toDefined({ ...same, supportedFeatures, contextLength, maxOutputLength }), options }
}
