/**
 * The catalog as a whole: `/admin/api/catalog`. Exported, planned, applied as a catalog's file is, its versions, back to one of them,
 * and newer public facts and prices. The latter are read from where the server is set to read them, and nobody says otherwise from afar.
 */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { type ApplyOptions, applyCatalog, type Permit, revertCatalog, showVersion } from '../catalog/apply.ts'
import { type EditBy, type Edited, readExport } from '../catalog/change.ts'
import type { Catalog } from '../catalog/complete.ts'
import { loadKnown } from '../catalog/known.ts'
import { listProviders, refreshFacts } from '../catalog/refresh.ts'
import { requireKnownReferences, requireRemote, resolveHosts } from '../catalog/remote.ts'
import {
  Applied,
  CatalogReverted,
  ExportedCatalog,
  Plan,
  RefreshedCatalog,
  ShownVersion,
  toAppliedDocument,
  toEditDocument,
  toPlanDocument,
  toRevertDocument,
  toShownVersionDocument,
  toVersionDocument,
  Version,
} from '../documents/catalog.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Principal } from '../identity/principal.ts'
import { readActorNames } from '../keys/audit-log.ts'
import { mergeLayers, NO_LAYERS, type UpstreamEntry } from '../store/catalog-layers.ts'
import { access, isOperator } from './access.ts'
import { actors, takeIn } from './changes.ts'
import type { AdminDeps } from './deps.ts'
import { exactly, PlanQuery } from './schema.ts'

/** A command exports a catalog of any size. */
const COMMAND_MS = 120_000
/** Of a catalogue's text. Three thousand models are as long. */
const MAX_CHARS = 1024 ** 2

const Body = exactly({
  prune: Type.Optional(Type.Boolean({ description: 'Whether what it no longer declares is deleted.' })),
  discard_edits: Type.Optional(
    Type.Boolean({ description: 'Whether what was changed by hand of what it declares is forgotten.' }),
  ),
  /** One of the two. JSON is YAML. */
  yaml: Type.Optional(
    Type.String({ maxLength: MAX_CHARS, description: "The text of a catalogue's file; this, or `document`." }),
  ),
  document: Type.Optional(Type.Record(Type.String(), Type.Unknown(), { description: 'The same as an object.' })),
})
const Revert = exactly({
  number: Type.Integer({ minimum: 1, description: 'Of the state.' }),
  plan: Type.Optional(Type.Boolean({ description: 'True: nothing is changed, and what would be is told.' })),
})
const APPLYING = ['catalog_invalid', 'catalog_not_read', 'catalog_unreadable', 'owners_only'] as const

/** Its entries are those of a file, which may be applied again after it. */
const ORIGIN = 'file'

export function catalogController(deps: AdminDeps) {
  const { store, identity, serving, catalogFiles, loadModelFiles, lookUp, facts } = deps
  const by = actors(deps)
  const refresh = refreshesOfFacts(deps)
  const permitFor = async (principal: Principal, wanted: readonly UpstreamEntry[]): Promise<Permit> => {
    if (isOperator(principal)) return () => {}
    const { role } = principal
    const mayChangeUpstreams = role === 'owner'
    // Of whom may change none, no name is looked up.
    const resolved = mayChangeUpstreams ? await resolve(wanted) : new Map()
    return (before, after) => requireRemote(before, after, { mayChangeUpstreams, resolved })
  }
  /** What is set by hand of an upstream that is not there may count again, once a file has that. */
  const resolve = async (wanted: readonly UpstreamEntry[]) => {
    const layers = await store.readLayers()
    const all = [...wanted, ...layers.upstreams].map(({ id, baseUrl = null, local = false }) => ({
      id,
      baseUrl,
      local,
    }))
    return resolveHosts(all, lookUp, mergeLayers(layers).upstreams)
  }

  const parse = async (text: string, name: string, { id }: Principal) =>
    (await catalogFiles.parse(text, { name, environment: {} }, id)).catalog

  const read = async (principal: Principal, request: Request, body: Static<typeof Body>) => {
    // The server has the variables that it names, or says of an upstream that it does not.
    const declared = await parse(toText(body), 'catalog', principal)
    const { upstreams } = declared
    let catalog = declared
    // Files of models are part of the layer: who applies another catalog says nothing of theirs.
    for (const { name, text } of await loadModelFiles())
      catalog = withOthers(catalog, await parse(text, name, principal))
    const permit = await permitFor(
      principal,
      upstreams.map((row) => ({ ...row, origin: ORIGIN })),
    )
    const options: ApplyOptions = {
      ...by(principal, request),
      ...{ origin: ORIGIN, subject: SUBJECT, digest: NO_DIGEST },
      ...{ prune: body.prune ?? false, discardEdits: body.discard_edits ?? false },
      permit(before, after) {
        requireKnownReferences(before.rows, upstreams)
        permit(before, after)
      },
    }
    return { catalog, options }
  }

  return new Elysia({ name: 'catalog' })
    .use(access())
    .get(
      '/catalog',
      async ({ principal }) => {
        const [of, limitMs] = [await readExport(store), isOperator(principal) ? COMMAND_MS : undefined]
        const { text, document, leftOut, sealed } = await catalogFiles.export(of, principal.id, limitMs)
        return { yaml: text, document, left_out: leftOut, sealed }
      },
      {
        route: {
          least: 'viewer',
          summary: 'Exports the catalogue',
          answer: ExportedCatalog,
          errors: ['catalog_not_read'],
        },
      },
    )
    .post(
      '/catalog/plan',
      async ({ request, principal, body }) => {
        const { catalog, options } = await read(principal, request, body)
        return toPlanDocument(await applyCatalog(store, catalog, { ...options, isPlan: true }), ORIGIN, [])
      },
      {
        route: { least: 'editor', summary: 'Tells what a catalogue would change', answer: Plan, errors: APPLYING },
        body: Body,
      },
    )
    .post(
      '/catalog/apply',
      async ({ request, principal, body }) => {
        const { catalog, options } = await read(principal, request, body)
        const applied = await applyCatalog(store, catalog, options)
        await takeIn(serving)
        return toAppliedDocument(applied, ORIGIN)
      },
      {
        route: {
          least: 'editor',
          edits: true,
          summary: 'Applies a catalogue',
          description: 'What files of models in the data folder declare stays, whether it is pruned or not.',
          answer: Applied,
          errors: APPLYING,
        },
        body: Body,
      },
    )
    .get(
      '/catalog/history',
      async () => {
        const names = await readActorNames(identity)
        return { versions: (await store.readVersions()).map((version) => toVersionDocument(version, names)) }
      },
      {
        route: {
          least: 'viewer',
          summary: 'Lists earlier states of the catalogue',
          answer: Type.Object({ versions: Type.Array(Version) }),
        },
      },
    )
    .get(
      '/catalog/history/:number',
      async ({ params: { number } }) =>
        toShownVersionDocument(await showVersion(store, toNumber(number)), await readActorNames(identity)),
      {
        route: {
          least: 'viewer',
          summary: 'Shows what made a state of the catalogue',
          answer: ShownVersion,
          errors: ['version_not_found'],
        },
      },
    )
    .post(
      '/catalog/revert',
      async ({ request, principal, body: { number, plan = false } }) => {
        const kept = await store.readVersion(number)
        const { upstreams } = kept?.layers ?? NO_LAYERS
        const permit = await permitFor(principal, upstreams)
        const done = await revertCatalog(store, number, { ...by(principal, request), isPlan: plan }, permit)
        if (!plan) await takeIn(serving)
        return toRevertDocument(done, number, plan)
      },
      {
        route: {
          least: 'editor',
          edits: true,
          summary: 'Makes the catalogue what it was, or plans that',
          answer: CatalogReverted,
          errors: ['version_not_found', 'owners_only'],
        },
        body: Revert,
      },
    )
    .post(
      '/catalog/refresh',
      async ({ request, principal, query }) => {
        const { models: _, ...refreshed } = await refresh(
          { source: facts.source, text: await facts.read() },
          { request, principal, query },
        )
        return refreshed
      },
      {
        route: {
          least: 'owner',
          summary: 'Brings what was found out up to date with newer public facts and prices, or plans that',
          description:
            'They are read from models.dev, or from where TOLLGATE_FACTS of the server says. What a file or the list of a provider says, and what was set by hand, stays.',
          answer: RefreshedCatalog,
          errors: ['facts_unusable', 'catalog_not_read'],
        },
        query: PlanQuery,
      },
    )
}

/** As history and audit log name where it came from. */
const SUBJECT = 'admin API'
/** A server that starts with a file of its own is to look at that again. */
const NO_DIGEST = ''

/** A catalog with what another one declares that this one does not. */
function withOthers(catalog: Catalog, other: Catalog): Catalog {
  const more = <Row>(own: readonly Row[], theirs: readonly Row[], nameOf: (row: Row) => string) => {
    const names = new Set(own.map(nameOf))
    return [...own, ...theirs.filter((row) => !names.has(nameOf(row)))]
  }
  return {
    upstreams: more(catalog.upstreams, other.upstreams, ({ id }) => id),
    models: more(catalog.models, other.models, ({ slug }) => slug),
    aliases: more(catalog.aliases, other.aliases, ({ alias }) => alias),
  }
}

function toText({ yaml, document }: Static<typeof Body>): string {
  const text = yaml ?? JSON.stringify(document)
  if (text === undefined || (yaml !== undefined && document !== undefined))
    throw new ServiceError({ kind: 'invalid', field: 'yaml' }, 'Give the catalogue either as yaml or as document.')
  if (text.length <= MAX_CHARS) return text
  throw new ServiceError({ kind: 'invalid', field: 'document' }, 'The catalogue is longer than 1 MB.')
}

function toNumber(text: string): number {
  const number = /^[1-9]\d{0,8}$/.test(text) ? Number(text) : 0
  if (number > 0) return number
  throw new ServiceError({ kind: 'version_not_found', number }, 'Versions of the catalogue have numbers from 1 on.')
}

/** Of a request for such a change. */
export interface ByHand {
  /** Left out by commands. */
  request?: Request
  principal: Principal
  query: { plan?: boolean }
}

/** Makes what does such a change, or plans it, and tells what it changes; from then on the server goes by it. */
export function changesByHand({ serving, ...deps }: Pick<AdminDeps, 'serving' | 'now' | 'changes'>) {
  const by = actors(deps)
  return async <Made extends Edited>(
    { request, principal, query: { plan: isPlan = false } }: ByHand,
    work: (by: EditBy) => Promise<Made>,
  ) => {
    const edited = await work({ ...by(principal, request), isPlan })
    if (!isPlan) await takeIn(serving)
    return { planned: isPlan, ...toEditDocument(edited) }
  }
}

/** Makes what brings the catalog up to date by a text of public facts, or plans that; `models` and `left_out` count the facts. */
export function refreshesOfFacts(deps: AdminDeps) {
  const { store, catalogFiles } = deps
  const byHand = changesByHand(deps)
  return async ({ text, source }: { text: string; source: string }, asked: ByHand) => {
    const [shipped, { upstreams }] = await Promise.all([loadKnown(), store.readCatalog()])
    const providers = listProviders(upstreams, shipped)
    const { known, models, wrong } = await catalogFiles.facts({ text, name: source, providers }, asked.principal.id)
    const refreshed = await byHand(asked, (by) => refreshFacts(store, { known, shipped, source }, by))
    return { ...refreshed, source, left_out: wrong, models }
  }
}
