/** `/admin/api/catalog`: export, plan, apply, versions, rollback, and refresh from the source configured on the server. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { type ApplyOptions, applyCatalog, type Permit, revertCatalog, showVersion } from '../catalog/apply.ts'
import { type EditBy, type Edited, readExport } from '../catalog/change.ts'
import type { Catalog } from '../catalog/complete.ts'
import { loadKnown, withPrices } from '../catalog/known.ts'
import { listProviders, refreshFacts } from '../catalog/refresh.ts'
import { requireKnownReferences, requireRemote, resolveHosts } from '../catalog/remote.ts'
import { undoVersion } from '../catalog/undo.ts'
import {
  Applied,
  CatalogReverted,
  CatalogUndone,
  ExportedCatalog,
  Plan,
  RefreshedCatalog,
  ShownVersion,
  toAppliedDocument,
  toEditDocument,
  toPlanDocument,
  toRevertDocument,
  toShownVersionDocument,
  toUndoDocument,
  toVersionDocument,
  Version,
} from '../documents/catalog.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Principal } from '../identity/principal.ts'
import { readActorNames } from '../keys/audit-log.ts'
import { mergeLayers, NO_LAYERS, type UpstreamEntry } from '../store/catalog-layers.ts'
import { access, isOperator } from './access.ts'
import { actors, takeIn } from './changes.ts'
import type { AdminDeps, Asker } from './deps.ts'
import { type EffectDeps, effectsOf } from './effects.ts'
import { DRY_RUN, exactly, PlanQuery } from './schema.ts'

/** Time limit for exports by commands, whatever the size. */
const COMMAND_MS = 120_000
/** About three thousand models. */
const MAX_CHARS = 1024 ** 2

const Body = exactly({
  prune: Type.Optional(
    Type.Boolean({
      description: 'True: delete entries from files and built-in ones that this catalog lacks. Default: keep them.',
    }),
  ),
  discard_edits: Type.Optional(Type.Boolean({ description: 'True: discard manual changes to declared entries.' })),
  /** Exactly one of `yaml` and `document`. */
  yaml: Type.Optional(
    Type.String({ maxLength: MAX_CHARS, description: 'Text of a catalog file. Send either this or `document`.' }),
  ),
  document: Type.Optional(Type.Record(Type.String(), Type.Unknown(), { description: 'Catalog as an object.' })),
})
const toVersionBody = (description: string) =>
  exactly({
    number: Type.Integer({ minimum: 1, description }),
    plan: Type.Optional(Type.Boolean({ description: DRY_RUN })),
  })
interface GoingBack {
  request: Request
  principal: Principal
  asker: Asker
  body: { number: number; plan?: boolean }
}

const APPLYING = ['catalog_invalid', 'catalog_not_read', 'catalog_unreadable', 'owners_only'] as const

/** Same layer as catalog files. */
const ORIGIN = 'file'

export function catalogController(deps: AdminDeps) {
  const { store, identity, serving, catalogFiles, loadModelFiles, lookUp, facts } = deps
  const by = actors(deps)
  const withEffects = effectsOf(deps)
  const refresh = refreshesOfFacts(deps)
  const permitFor = async (principal: Principal, wanted: readonly UpstreamEntry[]): Promise<Permit> => {
    if (isOperator(principal)) return () => {}
    const { role } = principal
    const mayChangeUpstreams = role === 'owner'
    // No DNS lookups for those who can't change upstreams.
    const resolved = mayChangeUpstreams ? await resolve(wanted) : new Map()
    return (before, after) => requireRemote(before, after, { mayChangeUpstreams, resolved })
  }
  /** @param from the version whose upstreams may come back */
  const goBack = async ({ request, principal, asker, body }: GoingBack, work: typeof revertCatalog, from: number) => {
    const { number, plan = false } = body
    const { upstreams } = (await store.readVersion(from))?.layers ?? NO_LAYERS
    const permit = await permitFor(principal, upstreams)
    const done = await work(store, number, { ...by(principal, request), isPlan: plan }, permit)
    if (plan) return withEffects(asker, done)
    await takeIn(serving)
    return done
  }
  /** Includes manual changes to missing upstreams, which apply again once a file declares them. */
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
    // Variables are resolved later, by the server.
    const declared = await parse(toText(body), 'catalog', principal)
    const { upstreams } = declared
    let catalog = declared
    // Model files belong to the same layer and must survive.
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
          summary: 'Export the catalog',
          answer: ExportedCatalog,
          errors: ['catalog_not_read'],
        },
      },
    )
    .post(
      '/catalog/plan',
      async ({ request, principal, body, asker }) => {
        const { catalog, options } = await read(principal, request, body)
        const plan = await applyCatalog(store, catalog, { ...options, isPlan: true })
        return toPlanDocument(await withEffects(asker, plan), ORIGIN, [])
      },
      {
        route: { least: 'editor', summary: 'Preview the changes of a catalog', answer: Plan, errors: APPLYING },
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
          summary: 'Apply a catalog',
          description: 'Models declared by model files in the data folder are kept, even with `prune`.',
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
          summary: 'List catalog versions',
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
          summary: 'Get the changes of a catalog version',
          answer: ShownVersion,
          errors: ['version_not_found'],
        },
      },
    )
    .post(
      '/catalog/revert',
      async (asked) => {
        const { number, plan = false } = asked.body
        return toRevertDocument(await goBack(asked, revertCatalog, number), number, plan)
      },
      {
        route: {
          least: 'editor',
          edits: true,
          summary: 'Roll back the catalog to a version',
          answer: CatalogReverted,
          errors: ['version_not_found', 'owners_only'],
        },
        body: toVersionBody('Version to roll back to.'),
      },
    )
    .post(
      '/catalog/undo',
      async (asked) => {
        const { number, plan = false } = asked.body
        return toUndoDocument(await goBack(asked, undoVersion, number - 1), number, plan)
      },
      {
        route: {
          least: 'editor',
          edits: true,
          summary: 'Undo the change of one catalog version',
          description:
            'Keeps later changes. Fails if they touched or need the same entries. Requests stay charged at the price they had.',
          answer: CatalogUndone,
          errors: ['version_not_found', 'undo_conflict', 'owners_only'],
        },
        body: toVersionBody('Version whose change to undo.'),
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
          summary: 'Refresh known prices and model facts',
          description:
            'Reads models.dev, or the source in TOLLGATE_FACTS of the server. Values from files, provider lists, and manual changes are kept.',
          answer: RefreshedCatalog,
          errors: ['facts_unusable', 'catalog_not_read'],
        },
        query: PlanQuery,
      },
    )
}

/** Source in the catalog history and audit log. */
const SUBJECT = 'admin API'
/** Empty, so that a server reads its own catalog file again at the next start. */
const NO_DIGEST = ''

/** Adds entries of another catalog that this one lacks. */
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
    throw new ServiceError({ kind: 'invalid', field: 'yaml' }, 'Send the catalog either as yaml or as document.')
  if (text.length <= MAX_CHARS) return text
  throw new ServiceError({ kind: 'invalid', field: 'document' }, 'The catalog must be at most 1 MB.')
}

function toNumber(text: string): number {
  const number = /^[1-9]\d{0,8}$/.test(text) ? Number(text) : 0
  if (number > 0) return number
  throw new ServiceError({ kind: 'version_not_found', number }, 'Catalog versions are numbers from 1.')
}

/** A request for a manual change. */
export interface ByHand {
  /** Absent for commands. */
  request?: Request
  principal: Principal
  query: { plan?: boolean }
}

/** Applies or plans a manual change, and reloads the server's snapshot. */
export function changesByHand({ serving, ...deps }: Pick<AdminDeps, 'serving' | 'changes'> & EffectDeps) {
  const by = actors(deps)
  const withEffects = effectsOf(deps)
  return async <Made extends Edited>(
    { request, principal, query: { plan: isPlan = false } }: ByHand,
    work: (by: EditBy) => Promise<Made>,
  ) => {
    const edited = await work({ ...by(principal, request), isPlan })
    if (!isPlan) await takeIn(serving)
    const told = isPlan ? await withEffects(toAsker(principal, request), edited) : edited
    return { planned: isPlan, ...toEditDocument(told) }
  }
}

const toAsker = ({ id }: Principal, request: Request | undefined): Asker => ({
  id,
  ...(request ? { signal: request.signal } : {}),
})

/** Applies or plans a refresh from public facts; `models` and `left_out` count valid and invalid facts. */
export function refreshesOfFacts(deps: AdminDeps) {
  const { store, catalogFiles } = deps
  const byHand = changesByHand(deps)
  return async ({ text, source }: { text: string; source: string }, asked: ByHand) => {
    const [shipped, { upstreams }] = await Promise.all([loadKnown(), store.readCatalog()])
    const providers = listProviders(upstreams, shipped)
    const {
      known: found,
      models,
      wrong,
    } = await catalogFiles.facts({ text, name: source, providers }, asked.principal.id)
    const known = await withPrices(found)
    const refreshed = await byHand(asked, (by) => refreshFacts(store, { known, shipped, source }, by))
    return { ...refreshed, source, left_out: wrong, models }
  }
}
