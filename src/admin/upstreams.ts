/** `/admin/api/upstreams`: list, test, discover, and edit upstreams. Responses never have credentials. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { addModels, type ChosenModel, findChosen } from '../catalog/add-models.ts'
import type { EditBy, Edited } from '../catalog/change.ts'
import { findUpstream } from '../catalog/edit.ts'
import {
  checkNewUpstream,
  createUpstream,
  deleteUpstream,
  editUpstream,
  type UpstreamChanges,
  type WantedUpstream,
} from '../catalog/edit-upstream.ts'
import { type UpstreamEntry, Upstream as UpstreamFields } from '../catalog/fields.ts'
import { findMore, findProviders, listOffered, toFoundServers } from '../catalog/providers.ts'
import { AddedModels, EditedUpstream, FoundModels } from '../documents/catalog.ts'
import { Pricing } from '../documents/model.ts'
import { Offer, toOfferDocument } from '../documents/offer.ts'
import {
  Found,
  NOT_TAKEN_IN,
  Preset,
  TestedUpstream,
  toFoundDocument,
  toPresetDocuments,
  toUpstreamDocuments,
  Upstream,
} from '../documents/upstream.ts'
import { toDefined } from '../domain/changes.ts'
import { byMsField, fromMsFields } from '../domain/deadlines.ts'
import { DIALECTS } from '../domain/dialects.ts'
import { mapLimits } from '../domain/limits.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { UpstreamRow } from '../store/catalog-rows.ts'
import { findPreset } from '../store/presets.ts'
import { toUpstreamState } from '../store/vault.ts'
import { access } from './access.ts'
import { type ByHand, changesByHand } from './catalog.ts'
import { actors } from './changes.ts'
import type { AdminDeps, ThisMachine } from './deps.ts'
import { exactly, type OrNull, oneOf, orNone, PlanQuery, toHandFields } from './schema.ts'

const OrDefault = Type.Optional(Type.Union([Type.Integer(), Type.Null()]))

const Own = exactly({
  api_key: orNone(
    Type.Union([Type.String({ maxLength: 5_000 }), Type.Array(Type.String({ maxLength: 5_000 }), { maxItems: 50 })]),
    'One credential or a list; null: none. Stored encrypted.',
  ),
  limits: Type.Optional(
    exactly(
      mapLimits(() => OrDefault),
      { description: 'Provider rate limits, for all keys together; null: no limit.' },
    ),
  ),
  deadlines: Type.Optional(
    exactly(
      byMsField(() => OrDefault),
      { description: 'Timeouts in ms; null: default.' },
    ),
  ),
})
type Fields = Static<typeof Own> &
  OrNull<Pick<UpstreamEntry, 'preset' | 'base_url'>> &
  Pick<UpstreamEntry, 'local' | 'enabled'>
const FIELDS = { ...toHandFields(UpstreamFields), ...Own.properties }
const Made = exactly({
  id: Type.String({ maxLength: 100, description: 'Upstream ID, used in routes.' }),
  dialect: Type.Optional(oneOf(DIALECTS, { description: 'API format; omit it if a preset has it.' })),
  use_variable: Type.Optional(
    Type.Boolean({
      description:
        "True: the credential is in the preset's environment variable of the server. Only at the preset's own URL.",
    }),
  ),
})
const Patch = Type.Unsafe<Fields>(exactly(FIELDS))
type New = Fields & Static<typeof Made>
const Tried = Type.Unsafe<New>(exactly({ ...FIELDS, ...Made.properties }))

export const ChosenFields = {
  upstream_model: Type.String({ minLength: 1, maxLength: 200, description: "The upstream's name for the model." }),
  slug: Type.String({ maxLength: 200, description: 'Model ID that clients use.' }),
  pricing: Type.Optional(Type.Array(Pricing, { minItems: 1, description: 'Omit it to use the known price.' })),
  context_length: Type.Optional(Type.Integer({ minimum: 1, description: 'Omit it to use the known one.' })),
}
const Choice = exactly({
  ...ChosenFields,
  exists: Type.Optional(
    Type.Boolean({
      description: 'Whether the model exists: then it gets a route. If that is no longer true, nothing is saved.',
    }),
  ),
})
const Body = Type.Unsafe<New & { models?: Static<typeof Choice>[] }>(
  exactly({
    ...FIELDS,
    ...Made.properties,
    models: Type.Optional(Type.Array(Choice, { maxItems: 1_000, description: 'Models to add, in the same change.' })),
  }),
)

const Chosen = exactly({
  models: Type.Array(Type.String({ minLength: 1, maxLength: 400 }), {
    maxItems: 100,
    default: [],
    description: 'Model names, patterns, or NAME=SLUG; empty: all chat models.',
  }),
})

const disabled = (id: string) =>
  new ServiceError({ kind: 'upstream_disabled', upstream: id }, `The upstream ${id} is disabled. Enable it first.`)

const documentsOf =
  ({ store, vault, serving }: AdminDeps) =>
  async (rows: readonly UpstreamRow[]) => {
    const sealed = await store.readSealed()
    return toUpstreamDocuments(rows, await vault.open(sealed), sealed, serving.upstreams(), serving.environment)
  }

/** Applies or plans a change, and returns the current upstream, or null if there is none. */
export function changesOfUpstreams(deps: AdminDeps) {
  const byHand = changesByHand(deps)
  const toDocuments = documentsOf(deps)
  return async <Made extends Edited>(id: string, asked: ByHand, work: (by: EditBy) => Promise<Made>) => {
    const edited = await byHand(asked, work)
    const { upstreams } = await deps.store.readCatalog()
    const [upstream = null] = await toDocuments(upstreams.filter((one) => one.id === id))
    return { ...edited, upstream }
  }
}

export function upstreamsController(all: AdminDeps) {
  const { store, vault, lookUp, thisMachine, serving, modelLists } = all
  const deps = { store, vault, lookUp }
  const toDocuments = documentsOf(all)
  const change = changesOfUpstreams(all)
  const by = actors(all)
  /** From the same list as the check before it. */
  const listAt = (row: UpstreamRow, apiKey: UpstreamChanges['apiKey'], isFresh = false) => {
    const { dialect, baseUrl, local, options, apiKeyRef } = row
    const typed = apiKey == null ? undefined : [apiKey].flat().map((text) => text.trim())
    const of = { dialect, baseUrl, local, options, apiKeyRef, typed }
    return modelLists.read(of, () => serving.modelsAt(row, typed), isFresh)
  }

  return (
    new Elysia({ name: 'upstreams' })
      .use(access())
      .get('/upstreams', async () => ({ upstreams: await toDocuments((await store.readCatalog()).upstreams) }), {
        route: {
          least: 'viewer',
          summary: 'List upstreams with their health',
          answer: Type.Object({ upstreams: Type.Array(Upstream) }),
        },
      })
      .get('/presets', () => ({ presets: toPresetDocuments() }), {
        route: {
          least: 'viewer',
          summary: 'List provider presets',
          answer: Type.Object({ presets: Type.Array(Preset) }),
        },
      })
      .get(
        '/upstreams/:id',
        async ({ params: { id } }) => {
          const { upstreams } = await store.readCatalog()
          const row = findUpstream({ upstreams }, id)
          return (await toDocuments([row]))[0]
        },
        {
          route: {
            least: 'viewer',
            summary: 'Get an upstream, without its credential',
            answer: Upstream,
            errors: ['upstream_not_found'],
          },
        },
      )
      .post(
        '/upstreams',
        ({ body: { models = [], ...fields }, ...asked }) => {
          const wanted = toWanted(fields, thisMachine.isSet)
          return change(wanted.id, asked, (actor) =>
            createUpstream(deps, wanted, actor, (row) =>
              findChosen(row, models.map(toChosen), () => listAt(row, wanted.apiKey)),
            ),
          )
        },
        {
          route: {
            least: 'owner',
            summary: 'Create an upstream',
            description:
              'Saves the upstream and its models together, or nothing. The credential is stored encrypted and never returned.',
            answer: AddedModels,
            errors: ['upstream_exists', 'secret_unusable', 'catalog_changed'],
          },
          body: Body,
          query: PlanQuery,
        },
      )
      .post(
        '/upstreams/check',
        async ({ request, principal, body }) => {
          const wanted = toWanted(body, thisMachine.isSet)
          const row = await checkNewUpstream(deps, wanted, by(principal, request))
          const ask = () => listAt(row, wanted.apiKey, true).catch(atField)
          return toOfferDocument(await listOffered(row, ask))
        },
        {
          route: {
            least: 'owner',
            summary: 'Check a new upstream and list its models',
            description: 'Requests the list, which is free, and saves nothing.',
            answer: Offer,
            errors: ['upstream_exists', 'list_failed'],
            ownErrors: { too_many_lists: 429 },
          },
          body: Tried,
        },
      )
      // Only for owners: it probes ports of the server's machine.
      .post(
        '/upstreams/discover',
        async () => {
          const servers = await thisMachine.findServers()
          const { upstreams } = await store.readCatalog()
          return toFoundDocument(toFoundServers(servers, upstreams), findProviders(upstreams, thisMachine.isSet))
        },
        {
          route: {
            least: 'owner',
            summary: 'Discover local model servers and provider keys in the environment',
            description:
              'Probes usual loopback ports for at most a second, without loading models. It adds nothing: use POST /upstreams with the preset and, if needed, the URL.',
            answer: Found,
          },
        },
      )
      .patch(
        '/upstreams/:id',
        ({ params: { id }, body, ...asked }) =>
          change(id, asked, (actor) => editUpstream(deps, id, toChanges(body), actor)),
        {
          route: {
            least: 'owner',
            edits: true,
            summary: 'Edit an upstream',
            description: 'If the URL changes, send the credential again.',
            answer: EditedUpstream,
            errors: ['upstream_not_found', 'catalog_changed', 'secret_unusable'],
          },
          body: Patch,
          query: PlanQuery,
        },
      )
      .delete(
        '/upstreams/:id',
        ({ params: { id }, ...asked }) => change(id, asked, (actor) => deleteUpstream(store, id, actor)),
        {
          route: {
            least: 'owner',
            edits: true,
            summary: 'Delete a manually created upstream and its routes',
            answer: EditedUpstream,
            errors: ['upstream_not_found', 'declared_elsewhere'],
          },
          query: PlanQuery,
        },
      )
      .get(
        '/upstreams/:id/models',
        async ({ params: { id } }) => {
          const row = findUpstream(await store.readCatalog(), id)
          return toOfferDocument(await listOffered(row, () => listOf(all, row)))
        },
        {
          route: {
            least: 'editor',
            summary: 'List the models of an upstream, with known prices',
            description: 'Requests the list, which is free, at most every 5 minutes.',
            answer: Offer,
            errors: ['upstream_not_found', 'upstream_disabled', 'list_failed'],
            ownErrors: { too_many_lists: 429 },
          },
        },
      )
      .post(
        '/upstreams/:id/models',
        async ({ params: { id }, body: { models: patterns }, ...asked }) => {
          const row = findUpstream(await store.readCatalog(), id)
          const ask = async () => {
            const listed = await serving.models(id)
            if (listed === null) throw disabled(id)
            return listed
          }
          const found = await findMore(row, { patterns, ask })
          const edited = await change(id, asked, (by) => addModels(store, id, found.models, by))
          const { others, notes } = found
          return { ...edited, left_out: others, notes: notes.concat(edited.notes) }
        },
        {
          route: {
            least: 'owner',
            summary: 'Add models that an upstream lists',
            description:
              'Requests the list, which is free. Existing models are kept, or get a fallback route to this upstream. `NAME=SLUG` sets another model ID.',
            answer: FoundModels,
            errors: ['upstream_not_found', 'upstream_disabled', 'list_failed'],
          },
          body: Chosen,
          query: PlanQuery,
        },
      )
      .post(
        '/upstreams/:id/test',
        async ({ params: { id } }) => {
          const result = await serving.test(id)
          if (result) return result
          const { enabled } = findUpstream(await store.readCatalog(), id)
          if (!enabled) throw disabled(id)
          return { id, state: 'not_ready', reason: NOT_TAKEN_IN, ms: null }
        },
        {
          route: {
            least: 'editor',
            summary: 'Test an upstream with a free request',
            answer: TestedUpstream,
            errors: ['upstream_not_found', 'upstream_disabled'],
          },
        },
      )
  )
}

/** Probable mistakes, for a form. */
function atField(error: unknown): never {
  if (!(error instanceof ServiceError) || error.failure.kind !== 'list_failed') throw error
  const field = error.failure.why === 'credential' ? 'api_key' : 'base_url'
  throw new ServiceError({ ...error.failure, field }, error.message)
}

/** The cached list of an upstream's models. Throws `upstream_disabled`, `list_failed`. */
export const listOf = async (
  { store, serving, modelLists }: Pick<AdminDeps, 'store' | 'serving' | 'modelLists'>,
  row: UpstreamRow,
) =>
  modelLists.read(toUpstreamState(row, await store.readSealed()), async () => {
    const listed = await serving.models(row.id)
    if (listed === null) throw disabled(row.id)
    return listed
  })

export const toChosen = ({
  upstream_model,
  slug,
  exists,
  pricing,
  context_length,
}: Static<typeof Choice>): ChosenModel =>
  toDefined({ upstreamModel: upstream_model, slug, exists, pricing, contextLength: context_length }) as ChosenModel

function toWanted({ id, dialect, use_variable: usesVariable = false, ...fields }: New, isSet: ThisMachine['isSet']) {
  const wanted: WantedUpstream = { ...toChanges(fields), id, ...toDefined({ dialect }) }
  return usesVariable ? { ...wanted, variable: toUsualVariable(wanted, isSet) } : wanted
}

/** Other addresses must not receive a variable's value. */
function toUsualVariable({ preset, baseUrl, apiKey }: WantedUpstream, isSet: ThisMachine['isSet']): string {
  const { env, base_url: usual } = findPreset(preset ?? '') ?? {}
  const problem =
    env === undefined || usual === undefined || baseUrl != null || apiKey != null
      ? 'only for a preset at its own URL, without api_key.'
      : !isSet(env) && `the variable ${env} is not set on the server.`
  if (problem) throw new ServiceError({ kind: 'invalid', field: 'use_variable' }, `Invalid use_variable: ${problem}`)
  return String(env)
}

function toChanges({ base_url: baseUrl, api_key: apiKey, deadlines, ...others }: Fields): UpstreamChanges {
  const { preset, local, enabled, limits } = others
  return toDefined({
    ...{ preset, baseUrl, apiKey, local, enabled },
    limits: limits && toDefined(limits),
    deadlines: deadlines && fromMsFields(deadlines),
  })
}
