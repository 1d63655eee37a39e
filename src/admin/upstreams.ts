/**
 * Upstreams, as the commands list and test them, and set up by owners: `/admin/api/upstreams`. A credential that is typed in is in no
 * answer. With `?plan=true` a change is told and not made.
 */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { addModels } from '../catalog/add-upstream.ts'
import type { EditBy, Edited } from '../catalog/edit.ts'
import { createUpstream, deleteUpstream, editUpstream, type UpstreamChanges } from '../catalog/edit-upstream.ts'
import { findUpstream } from '../catalog/find.ts'
import { findMore } from '../catalog/found-models.ts'
import { findProviders, toFoundServers } from '../catalog/on-this-machine.ts'
import { toFoundDocument, toPresetDocuments, toUpstreamDocuments } from '../documents/upstream.ts'
import { toDefined } from '../domain/changes.ts'
import { DIALECTS } from '../domain/dialects.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { UpstreamRow } from '../store/catalog-rows.ts'
import { access } from './access.ts'
import { type ByHand, changesByHand } from './by-hand.ts'
import type { AdminDeps } from './deps.ts'
import { exactly, oneOf, orNone, PlanQuery } from './schema.ts'

const Fields = {
  /** A provider, which says the dialect and, mostly, the address; null for none. */
  preset: orNone(Type.String({ maxLength: 100 })),
  /** null = as its preset has it. */
  base_url: orNone(Type.String({ maxLength: 500 })),
  /** The credential itself, or several; null for none. */
  api_key: orNone(
    Type.Union([Type.String({ maxLength: 5_000 }), Type.Array(Type.String({ maxLength: 5_000 }), { maxItems: 50 })]),
  ),
  local: Type.Optional(Type.Boolean()),
  enabled: Type.Optional(Type.Boolean()),
  /** Of its provider, all keys together; null = none. */
  limits: Type.Optional(
    exactly({ rpm: orNone(Type.Integer()), tpm: orNone(Type.Integer()), concurrency: orNone(Type.Integer()) }),
  ),
  /** ms; null = as by default. */
  deadlines: Type.Optional(
    exactly({
      headers_ms: orNone(Type.Integer()),
      first_token_ms: orNone(Type.Integer()),
      idle_ms: orNone(Type.Integer()),
      total_ms: orNone(Type.Integer()),
      total_whole_ms: orNone(Type.Integer()),
    }),
  ),
}
const Patch = exactly(Fields)
const Body = exactly({ ...Fields, id: Type.String({ maxLength: 100 }), dialect: Type.Optional(oneOf(DIALECTS)) })

/** Names of models, patterns, or NAME=SLUG; none = all that chat. */
const Pick = exactly({
  models: Type.Array(Type.String({ minLength: 1, maxLength: 400 }), { maxItems: 100, default: [] }),
})

const disabled = (id: string) =>
  new ServiceError(
    { kind: 'upstream_disabled', upstream: id },
    `The upstream ${id} is disabled: nothing is sent to it.`,
  )

export function upstreamsController(all: AdminDeps) {
  const { store, vault, lookUp, thisMachine, serving } = all
  const byHand = changesByHand(all)
  const deps = { store, vault, lookUp }
  const toDocuments = async (rows: readonly UpstreamRow[]) =>
    toUpstreamDocuments(rows, await vault.open(await store.readSealed()), serving.upstreams())

  const show = async (id: string) => {
    const { upstreams } = await store.readCatalog()
    const row = upstreams.find((one) => one.id === id)
    return row ? (await toDocuments([row]))[0] : null
  }

  /** Tells what has changed or would, and how the upstream is now; null where it is not there. */
  const change = async (id: string, asked: ByHand, work: (by: EditBy) => Promise<Edited>) => ({
    ...(await byHand(asked, work)),
    upstream: await show(id),
  })

  return (
    new Elysia({ name: 'upstreams' })
      .use(access())
      .get('/upstreams', async () => ({ upstreams: await toDocuments((await store.readCatalog()).upstreams) }), {
        least: 'viewer',
      })
      .get('/presets', () => ({ presets: toPresetDocuments() }), { least: 'viewer' })
      .get(
        '/upstreams/:id',
        async ({ params: { id } }) => {
          const { upstreams } = await store.readCatalog()
          const row = findUpstream({ upstreams }, id)
          return (await toDocuments([row]))[0]
        },
        { least: 'viewer' },
      )
      .post(
        '/upstreams',
        ({ body: { id, dialect, ...fields }, ...asked }) =>
          change(id, asked, (actor) =>
            createUpstream(deps, { ...toChanges(fields), id, ...toDefined({ dialect }) }, actor),
          ),
        { least: 'owner', body: Body, query: PlanQuery },
      )
      // Nobody's page may have it look but an owner's: it asks ports of the server's own machine.
      .post(
        '/upstreams/discover',
        async () => {
          const servers = await thisMachine.findServers()
          const { upstreams } = await store.readCatalog()
          return toFoundDocument(toFoundServers(servers, upstreams), findProviders(upstreams, thisMachine.isSet))
        },
        { least: 'owner' },
      )
      .patch(
        '/upstreams/:id',
        ({ params: { id }, body, ...asked }) =>
          change(id, asked, (actor) => editUpstream(deps, id, toChanges(body), actor)),
        { least: 'owner', body: Patch, query: PlanQuery },
      )
      .delete(
        '/upstreams/:id',
        ({ params: { id }, ...asked }) => change(id, asked, (actor) => deleteUpstream(store, id, actor)),
        { least: 'owner', query: PlanQuery },
      )
      .post(
        '/upstreams/:id/models',
        async ({ params: { id }, body: { models: patterns }, ...asked }) => {
          const row = findUpstream(await store.readCatalog(), id)
          const found = await findMore(row, {
            patterns,
            ask: () => serving.models(id) ?? Promise.reject(disabled(id)),
          })
          const edited = await byHand(asked, (by) => addModels(store, id, found.models, by))
          const { others, notes } = found
          return { ...edited, upstream: await show(id), left_out: others, notes: notes.concat(edited.notes) }
        },
        { least: 'owner', body: Pick, query: PlanQuery },
      )
      .post(
        '/upstreams/:id/test',
        async ({ params: { id } }) => {
          const result = await serving.test(id)
          if (result) return result
          findUpstream(await store.readCatalog(), id)
          throw disabled(id)
        },
        { least: 'editor' },
      )
  )
}

function toChanges({
  base_url: baseUrl,
  api_key: apiKey,
  deadlines,
  ...others
}: Static<typeof Patch>): UpstreamChanges {
  const { preset, local, enabled, limits } = others
  return toDefined({
    ...{ preset, baseUrl, apiKey, local, enabled },
    limits: limits && toDefined(limits),
    deadlines:
      deadlines &&
      toDefined({
        headers: deadlines.headers_ms,
        firstToken: deadlines.first_token_ms,
        idle: deadlines.idle_ms,
        total: deadlines.total_ms,
        totalWhole: deadlines.total_whole_ms,
      }),
  })
}
