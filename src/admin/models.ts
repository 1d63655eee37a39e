/**
 * Models, as the commands list and show them, and changed by hand, with their routes: `/admin/api/models`. A slug has a slash, and so
 * may an upstream's name of a model: they are escaped in a path. With `?plan=true` a change is told and not made.
 */
import { type TSchema, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { EditBy, Edited } from '../catalog/change.ts'
import {
  deleteRoute,
  editModel,
  findModel,
  type ModelChanges,
  type RouteChanges,
  resetModel,
  setRoute,
} from '../catalog/edit.ts'
import { Model, Route, toColumns } from '../catalog/fields.ts'
import { EditedModel } from '../documents/catalog.ts'
import {
  Alias,
  ListedModel,
  toAliasDocuments,
  toKnown,
  toModelDocuments,
  toShownModel,
  WholeModel,
} from '../documents/model.ts'
import { toUpstreamDocuments } from '../documents/upstream.ts'
import { EFFORTS, type Feature, THINKING } from '../domain/models.ts'
import type { PricingItem } from '../domain/usage.ts'
import type { CatalogRows } from '../store/catalog-rows.ts'
import { access } from './access.ts'
import { type ByHand, changesByHand } from './catalog.ts'
import type { AdminDeps } from './deps.ts'
import { exactly, oneOf, orNone, PlanQuery } from './schema.ts'

/** The rules of a catalogue's file say which fields a price has, and which features there are. */
const pricing = Type.Unsafe<PricingItem[]>(
  Type.Array(Type.Record(Type.String(), Type.Unknown()), {
    minItems: 1,
    description:
      'Prices in USD as decimals, such as `{"prompt":"0.000001","completion":"0.000002"}`. Of a route, null: as its model.',
  }),
)
const features = Type.Unsafe<Feature[]>(
  Type.Array(Type.String(), { description: 'Such as `tools`. Of a route, null: as its model.' }),
)
const contextLength = Type.Integer({
  description: 'Tokens that prompt and answer have together. Of a route, null: as its model.',
})
const maxOutputLength = Type.Integer({
  description: 'Tokens that an answer has at most. Of a route, null: as its model.',
})
const enabled = Type.Optional(Type.Boolean({ description: 'False: nobody is sent there.' }))
/** A field of a route, with what it says of null. */
const ofRoute = <Schema extends TSchema>(schema: Schema) => orNone(schema, schema.description ?? '')

const ModelPatch = exactly({
  pricing: Type.Optional(pricing),
  supported_features: Type.Optional(features),
  context_length: Type.Optional(contextLength),
  max_output_length: Type.Optional(maxOutputLength),
  enabled,
  listed: Type.Optional(Type.Boolean({ description: 'Whether lists of models have it.' })),
})

const RouteBody = exactly({
  priority: Type.Optional(Type.Integer({ description: 'Lower ones are tried first.' })),
  weight: Type.Optional(Type.Integer({ description: 'Its part among those of the same priority.' })),
  pricing: ofRoute(pricing),
  context_length: ofRoute(contextLength),
  max_output_length: ofRoute(maxOutputLength),
  supported_features: ofRoute(features),
  enabled,
  /** Null for these: nothing is said of it. */
  thinking: orNone(
    oneOf(THINKING),
    'How its model thinks there: by an effort, by a number of tokens, or not; null: as is known of it.',
  ),
  efforts: orNone(Type.Array(oneOf(EFFORTS), { minItems: 1 }), 'The efforts that it knows.'),
  thinking_off: orNone(Type.Boolean(), 'Whether it can be told not to think.'),
  thinking_unasked: orNone(Type.Boolean(), 'Whether it thinks where nobody asks it to.'),
  sampling: orNone(Type.Boolean(), 'Whether it takes `temperature`, `top_p` and `top_k`.'),
})

/** A server knows whether it has them. */
const NOT_NEEDED = new Map()

export function modelsController(deps: AdminDeps) {
  const { store, vault, serving } = deps
  const byHand = changesByHand(deps)
  const toDocuments = async (rows: CatalogRows) => {
    const statuses = serving.upstreams()
    const opened = statuses ? NOT_NEEDED : await vault.open(await store.readSealed())
    const upstreams = toUpstreamDocuments(rows.upstreams, opened, statuses, serving.environment)
    return toModelDocuments(rows, toKnown(upstreams, statuses !== null))
  }

  const show = async (name: string) => {
    const rows = await store.readCatalog()
    const { slug } = findModel(rows, name)
    const prices = await store.readPrices(slug)
    // Of one model alone: there may be thousands.
    const own = { ...rows, models: rows.models.filter((row) => row.slug === slug) }
    const [document] = await toDocuments(own)
    if (document === undefined) throw new Error('a model of the catalogue has no document')
    return toShownModel(document, rows, prices)
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
        return { models: await toDocuments(rows), aliases: toAliasDocuments(rows) }
      },
      {
        route: {
          least: 'viewer',
          summary: 'Lists models with prices, routes and readiness, and their aliases',
          answer: Type.Object({ models: Type.Array(ListedModel), aliases: Type.Array(Alias) }),
        },
      },
    )
    .get('/models/:slug', ({ params: { slug } }) => show(slug), {
      route: {
        least: 'viewer',
        summary: 'Shows a model with every price that it had',
        description: 'Slugs have a slash, which is escaped: `openai%2Fgpt-5`. An alias does, too.',
        answer: WholeModel,
        errors: ['model_not_found'],
      },
    })
    .patch(
      '/models/:slug',
      ({ params: { slug }, body, ...asked }) =>
        change(slug, asked, (actor) => editModel(store, slug, toColumns<ModelChanges>(Model, body), actor)),
      {
        route: {
          least: 'editor',
          edits: true,
          summary: 'Changes a model by hand, or plans that',
          answer: EditedModel,
          errors: ['model_not_found'],
        },
        body: ModelPatch,
        query: PlanQuery,
      },
    )
    .post(
      '/models/:slug/reset',
      ({ params: { slug }, ...asked }) => change(slug, asked, (actor) => resetModel(store, slug, actor)),
      {
        route: {
          least: 'editor',
          edits: true,
          summary: 'Gives a model back to the file or the facts that it is from',
          answer: EditedModel,
          errors: ['model_not_found', 'no_earlier_state', 'invalid'],
        },
        query: PlanQuery,
      },
    )
    .put(
      '/models/:slug/routes/:upstream/:upstream_model',
      ({ params, body, ...asked }) =>
        change(params.slug, asked, (actor) =>
          setRoute(store, toRouteId(params), toColumns<RouteChanges>(Route, body), actor),
        ),
      {
        route: {
          least: 'editor',
          edits: true,
          summary: 'Makes a route of a model, or changes it, or plans that',
          answer: EditedModel,
          errors: ['model_not_found', 'upstream_not_found'],
        },
        body: RouteBody,
        query: PlanQuery,
      },
    )
    .delete(
      '/models/:slug/routes/:upstream/:upstream_model',
      ({ params, ...asked }) => change(params.slug, asked, (actor) => deleteRoute(store, toRouteId(params), actor)),
      {
        route: {
          least: 'editor',
          edits: true,
          summary: 'Deletes a route that was made by hand',
          answer: EditedModel,
          errors: ['model_not_found', 'route_not_found', 'declared_elsewhere'],
        },
        query: PlanQuery,
      },
    )
}

const toRouteId = (params: { slug: string; upstream: string; upstream_model: string }) => ({
  model: params.slug,
  upstream: params.upstream,
  upstreamModel: params.upstream_model,
})
