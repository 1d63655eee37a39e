/**
 * The catalogue as a whole: `/admin/api/catalog`. Exported, planned, applied as a catalogue's file is, its versions, and back to one
 * of them.
 */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { type ApplyWishes, applyCatalog, type Permit, planApply } from '../catalog/apply.ts'
import type { Catalog } from '../catalog/complete.ts'
import { listVersions, planRevert, revertCatalog, showVersion } from '../catalog/history.ts'
import { requireKnownReferences, requireRemote, resolveHosts } from '../catalog/remote.ts'
import {
  Applied,
  CatalogReverted,
  ExportedCatalog,
  Plan,
  ShownVersion,
  toPlanDocument,
  toShownVersionDocument,
  toVersionDocument,
  Version,
} from '../documents/catalog.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Principal } from '../identity/principal.ts'
import { readActorNames } from '../keys/audit-log.ts'
import type { UpstreamRow } from '../store/catalog-rows.ts'
import { access } from './access.ts'
import { actors } from './actor.ts'
import type { AdminDeps } from './deps.ts'
import { exactly } from './schema.ts'

/** Of a catalogue's text. Three thousand models are as long. */
const MOST_CHARS = 1024 ** 2

const Body = exactly({
  prune: Type.Optional(Type.Boolean({ description: 'Whether what it no longer declares is deleted.' })),
  take_over: Type.Optional(
    Type.Boolean({ description: 'Whether it wins over what an administrator has changed by hand.' }),
  ),
  /** One of the two. JSON is YAML. */
  yaml: Type.Optional(
    Type.String({ maxLength: MOST_CHARS, description: "The text of a catalogue's file; this, or `document`." }),
  ),
  document: Type.Optional(Type.Record(Type.String(), Type.Unknown(), { description: 'The same as an object.' })),
})
const Revert = exactly({
  number: Type.Integer({ minimum: 1, description: 'Of the state.' }),
  plan: Type.Optional(Type.Boolean({ description: 'True: nothing is changed, and what would be is told.' })),
})
const APPLYING = ['catalog_invalid', 'catalog_not_read', 'catalog_unreadable', 'owners_only'] as const

/** Its rows are those of a file, which may be applied again after it. */
const ORIGIN = 'file'

export function catalogController(deps: AdminDeps) {
  const { store, identity, serving, catalogFiles, loadModelFiles, lookUp } = deps
  const by = actors(deps)
  const permitFor = async (
    { role }: Principal,
    wanted: readonly Pick<UpstreamRow, 'id' | 'baseUrl' | 'local'>[],
  ): Promise<Permit> => {
    const mayChangeUpstreams = role === 'owner'
    // Of whom may change none, no name is looked up.
    const { upstreams } = mayChangeUpstreams ? await store.readCatalog() : { upstreams: wanted }
    const rights = { mayChangeUpstreams, resolved: await resolveHosts(wanted, lookUp, upstreams) }
    return (current, write) => requireRemote(current, write, rights)
  }

  /** Files of models are catalogues of their own: who applies another one says nothing of theirs. */
  const readModelFiles = async ({ id }: Principal): Promise<Catalog[]> => {
    const catalogs: Catalog[] = []
    for (const { name, text } of await loadModelFiles())
      catalogs.push((await catalogFiles.parse(text, { name, environment: {} }, id)).catalog)
    return catalogs
  }

  const read = async (principal: Principal, body: Static<typeof Body>) => {
    const text = toText(body)
    // The server has these variables, or says of an upstream that it does not.
    const parsed = await catalogFiles.parse(text, { name: 'catalog', environment: {} }, principal.id)
    const { upstreams } = parsed.catalog
    const permit = await permitFor(principal, upstreams)
    const wishes: ApplyWishes = { prune: body.prune ?? false, takeOver: body.take_over ?? false }
    return {
      catalog: parsed.catalog,
      options: {
        ...wishes,
        origin: ORIGIN,
        beside: await readModelFiles(principal),
        permit: (...[current, write]: Parameters<Permit>) => {
          requireKnownReferences(current, upstreams)
          permit(current, write)
        },
      } as const,
    }
  }

  return new Elysia({ name: 'catalog' })
    .use(access())
    .get(
      '/catalog',
      async ({ principal }) => {
        const [rows, sealed] = await Promise.all([store.readCatalog(), store.readSealed()])
        const ids = [...new Set(sealed.map(({ id }) => id))]
        const { text, document, leftOut } = await catalogFiles.export(rows, ids, principal.id)
        return { yaml: text, document, left_out: leftOut, sealed: ids }
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
      async ({ principal, body }) => {
        const { catalog, options } = await read(principal, body)
        return toPlanDocument(await planApply(store, catalog, options), ORIGIN, [])
      },
      {
        route: { least: 'editor', summary: 'Tells what a catalogue would change', answer: Plan, errors: APPLYING },
        body: Body,
      },
    )
    .post(
      '/catalog/apply',
      async ({ request, principal, body }) => {
        const { catalog, options } = await read(principal, body)
        const who = by(principal, request)
        const summary = await applyCatalog(store, catalog, { ...options, ...who, subject: SUBJECT, digest: NO_DIGEST })
        await serving.refresh()
        return { origin: ORIGIN, ...summary }
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
        return { versions: (await listVersions(store)).map((version) => toVersionDocument(version, names)) }
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
        const permit = await permitFor(principal, kept?.rows.upstreams ?? [])
        const who = by(principal, request)
        const done = await (plan ? planRevert(store, number, permit) : revertCatalog(store, number, who, permit))
        if (!plan) await serving.refresh()
        return { reverted_to: number, planned: plan, ...done }
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
}

/** As history and audit log name where it came from. */
const SUBJECT = 'admin API'
/** A server that starts with a file of its own is to look at that again. */
const NO_DIGEST = ''

function toText({ yaml, document }: Static<typeof Body>): string {
  const text = yaml ?? JSON.stringify(document)
  if (text === undefined || (yaml !== undefined && document !== undefined))
    throw new ServiceError({ kind: 'invalid', field: 'yaml' }, 'Give the catalogue either as yaml or as document.')
  if (text.length <= MOST_CHARS) return text
  throw new ServiceError({ kind: 'invalid', field: 'document' }, 'The catalogue is longer than 1 MB.')
}

function toNumber(text: string): number {
  const number = /^[1-9]\d{0,8}$/.test(text) ? Number(text) : 0
  if (number > 0) return number
  throw new ServiceError({ kind: 'version_not_found', number }, 'Versions of the catalogue have numbers from 1 on.')
}
