/** `/admin/api/models`: list, edit, and reset models and routes. Slashes in model IDs are escaped in paths. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { createChosen, findChosen } from '../catalog/add-models.ts'
import type { EditBy, Edited } from '../catalog/change.ts'
import {
  deleteRoute,
  editModel,
  findModel,
  findUpstream,
  type ModelChanges,
  type RouteChanges,
  resetModel,
  setRoute,
} from '../catalog/edit.ts'
import { Model, type ModelEntry, Route, type RouteEntry, toColumns } from '../catalog/fields.ts'
import { CreatedModel, EditedModel } from '../documents/catalog.ts'
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
import type { CatalogRows } from '../store/catalog-rows.ts'
import { access } from './access.ts'
import { type ByHand, changesByHand } from './catalog.ts'
import type { AdminDeps } from './deps.ts'
import { exactly, type OrNull, PlanQuery, toHandFields } from './schema.ts'
import { ChosenFields, listOf, toChosen } from './upstreams.ts'

const ModelPatch = Type.Unsafe<Partial<ModelEntry>>(exactly(toHandFields(Model)))
const NewModel = exactly({
  ...ChosenFields,
  upstream: Type.String({ maxLength: 100, description: 'Upstream of its first route.' }),
})
const RouteBody = Type.Unsafe<OrNull<RouteEntry>>(exactly(toHandFields(Route)))

/** A running server knows its credentials. */
const NOT_NEEDED = new Map()

export function modelsController(deps: AdminDeps) {
  const { store, vault, serving } = deps
  const byHand = changesByHand(deps)
  const toDocuments = async (rows: CatalogRows) => {
    const statuses = serving.upstreams()
    const opened = statuses ? NOT_NEEDED : await vault.open(await store.readSealed())
    const upstreams = toUpstreamDocuments(rows.upstreams, opened, [], statuses, serving.environment)
    return toModelDocuments(rows, toKnown(upstreams, statuses !== null))
  }

  const show = async (name: string) => {
    const rows = await store.readCatalog()
    const { slug } = findModel(rows, name)
    const prices = await store.readPrices(slug)
    // Only this model, since there may be thousands.
    const own = { ...rows, models: rows.models.filter((row) => row.slug === slug) }
    const [document] = await toDocuments(own)
    if (document === undefined) throw new Error('a model of the catalog has no document')
    return toShownModel(document, rows, prices)
  }

  /** Returns the changes and the current model. */
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
          summary: 'List models with prices, routes, and readiness, and their aliases',
          answer: Type.Object({ models: Type.Array(ListedModel), aliases: Type.Array(Alias) }),
        },
      },
    )
    .post(
      '/models',
      async ({ body: { upstream, ...model }, ...asked }) => {
        const row = findUpstream(await store.readCatalog(), upstream)
        const models = await findChosen(row, [toChosen({ ...model, exists: false })], () => listOf(deps, row))
        const { slug } = model
        const edited = await byHand(asked, (by) => createChosen(store, upstream, slug, models, by))
        const { fresh: _, further: __, unpriced, ...told } = edited
        return { ...told, is_priced: unpriced.length === 0, model: told.planned ? null : await show(slug) }
      },
      {
        route: {
          least: 'editor',
          summary: 'Create a model with a route',
          description: "Facts and prices that aren't given are looked up. A model without a known price is disabled.",
          answer: CreatedModel,
          errors: ['upstream_not_found', 'catalog_changed'],
        },
        body: NewModel,
        query: PlanQuery,
      },
    )
    .get('/models/:slug', ({ params: { slug } }) => show(slug), {
      route: {
        least: 'viewer',
        summary: 'Get a model with its price history',
        description: 'Escape the slash in model IDs: `openai%2Fgpt-5`. Aliases work too.',
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
          summary: 'Edit a model',
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
          summary: 'Reset a model to its catalog or known values',
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
          summary: 'Create or edit a route of a model',
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
          summary: 'Delete a manually created route',
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
