/**
 * `/operator`: operations of the data folder's owner, never over the network. They may use any URL and the server's variables. Bodies are
 * not validated, since the CLI has the same version; except for amounts, since the ledger keeps them forever.
 */
import { type TSchema, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { addUpstream, type NewCredential, type NewUpstream } from '../catalog/add-upstream.ts'
import { type ApplyOptions, applyCatalog } from '../catalog/apply.ts'
import type { EditBy } from '../catalog/change.ts'
import type { Catalog, DeclaredModel } from '../catalog/complete.ts'
import { deleteServedModel } from '../catalog/edit.ts'
import { editUpstream, type UpstreamChanges } from '../catalog/edit-upstream.ts'
import { findProviders, toFoundServers } from '../catalog/providers.ts'
import { toCodedDocument } from '../documents/people.ts'
import { toFoundDocument } from '../documents/upstream.ts'
import { LATEST_MS } from '../domain/id.ts'
import { keysOf } from '../domain/json.ts'
import { DAY_MS } from '../domain/time.ts'
import { resetAdmin } from '../identity/admins.ts'
import { FIGURES } from '../ledger/reconcile/bill.ts'
import type { Correction } from '../ledger/reconcile/correct.ts'
import { OPERATOR } from './access.ts'
import { changesByHand, refreshesOfFacts } from './catalog.ts'
import { takeIn } from './changes.ts'
import type { AdminDeps } from './deps.ts'
import { effectsOf } from './effects.ts'
import { exactly } from './schema.ts'
import { changesOfUpstreams } from './upstreams.ts'

const OPERATOR_PATH = '/operator'

export function operatorController(deps: AdminDeps) {
  const { store, vault, identity, thisMachine, serving, corrections, rotateSecret, now } = deps
  const asked = (plan = false) => ({ principal: OPERATOR, query: { plan } })
  const byHand = changesByHand(deps)
  const withEffects = effectsOf(deps)
  const changeUpstream = changesOfUpstreams(deps)
  const refreshFacts = refreshesOfFacts(deps)
  return new Elysia({ prefix: OPERATOR_PATH, normalize: false })
    .post('/admins/:id/reset', async ({ params: { id } }) =>
      toCodedDocument(await resetAdmin(identity, id, { actor: OPERATOR.id, nowMs: now() })),
    )
    .post(
      '/ledger/corrections',
      ({ body: { corrections: wanted, reason } }) =>
        corrections.take(wanted, reason, { actor: OPERATOR.id, nowMs: now() }),
      { body: exactly({ corrections: Type.Array(CorrectionBody), reason: Type.String({ minLength: 1 }) }) },
    )
    .post('/secret/rotate', () => rotateSecret({ actor: OPERATOR.id, nowMs: now() }))
    .post(
      '/upstreams',
      ({ body: { plan, ...wanted } }) =>
        changeUpstream(wanted.upstream.id, asked(plan), (by) => addUpstream({ store, vault }, wanted, by)),
      takes<Planned & { upstream: NewUpstream; credential: NewCredential; models: DeclaredModel[] }>(),
    )
    .post(
      '/upstreams/discover',
      async ({ body: { at, variables } }) => {
        const servers = await thisMachine.findServers(at)
        const { upstreams } = await store.readCatalog()
        const providers = findProviders(upstreams, (variable) => variables.includes(variable))
        return toFoundDocument(toFoundServers(servers, upstreams), providers)
      },
      // `variables` are those set for the command.
      takes<{ at: string[] | undefined; variables: string[] }>(),
    )
    .patch(
      '/upstreams/:id',
      ({ params: { id }, body: { plan, changes } }) =>
        changeUpstream(id, asked(plan), (by) => editUpstream({ store, vault, lookUp: null }, id, changes, by)),
      takes<Planned & { changes: UpstreamChanges }>(),
    )
    .delete(
      '/models/:slug',
      ({ params: { slug }, body: { plan } }) => byHand(asked(plan), (by) => deleteServedModel(store, slug, by)),
      takes<Planned>(),
    )
    .post(
      '/catalog/apply',
      async ({ body: { catalog, ...options } }) => {
        const by: EditBy = { actor: OPERATOR.id, nowMs: now() }
        const applied = await applyCatalog(store, catalog, { ...options, ...by })
        if (options.isPlan) return withEffects({ id: OPERATOR.id }, applied)
        await takeIn(serving)
        return applied
      },
      takes<{ catalog: Catalog } & Omit<ApplyOptions, keyof Omit<EditBy, 'isPlan'> | 'permit'>>(),
    )
    .post(
      '/catalog/refresh',
      ({ body: { plan, ...facts } }) => refreshFacts(facts, asked(plan)),
      takes<Planned & { text: string; source: string }>(),
    )
}

const amount = (minimum: 0 | 1) => Type.Integer({ minimum, maximum: Number.MAX_SAFE_INTEGER })
/** Two may be added. */
const Tokens = Type.Optional(Type.Integer({ minimum: 0, maximum: 2 ** 52 - 1 }))
const CORRECTED = keysOf(FIGURES).filter((figure) => figure !== 'requests')

const CorrectionBody = Type.Unsafe<Correction>(
  exactly({
    dayMs: Type.Integer({ minimum: 0, maximum: LATEST_MS, multipleOf: DAY_MS }),
    ...{ upstream: Type.String(), upstreamModel: Type.String(), model: Type.String() },
    credential: Type.Union([amount(1), Type.Null()]),
    ...{ nanoUsd: amount(1), ledgerNanoUsd: amount(0) },
    figures: exactly(Object.fromEntries(CORRECTED.map((figure) => [figure, Tokens]))),
  } satisfies Record<keyof Correction, TSchema>),
)

/** `plan`: dry run. */
interface Planned {
  plan: boolean
}

const takes = <Body>() => ({ body: Type.Unsafe<Body>(Type.Unknown()) })

export type OperatorApi = ReturnType<typeof operatorController>
