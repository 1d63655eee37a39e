/**
 * A provider with the models that it was asked for: its upstream, which is the administrator's from then on, and their models, routes
 * and prices, which are what was found out (`discovered`): a file may say otherwise, and a refresh of facts brings them up to date.
 * Called by commands, whose user may name any address, and variables.
 */
import { ServiceError } from '../domain/service-error.ts'
import type { CatalogRows, ModelRow, PriceRow, RouteRow, UpstreamRow } from '../store/catalog-rows.ts'
import type { ConfigStore } from '../store/config-store.ts'
import { CLEARED, type Vault } from '../store/vault.ts'
import { toPrice, withLayer } from './apply.ts'
import { changeCatalog, type Decision, type EditBy, type Edited, type State, toState } from './change.ts'
import { requireSoundUpstream } from './check-edit.ts'
import type { DeclaredModel } from './complete.ts'
import { toFew } from './discover.ts'
import { findUpstream, withEntry } from './edit.ts'

export interface AddDeps {
  store: ConfigStore
  vault: Pick<Vault, 'seal' | 'requireCurrent'>
}

export type NewUpstream = Pick<UpstreamRow, 'id' | 'dialect' | 'baseUrl' | 'local' | 'options'>

/** Where its credential comes from: a variable of the server's environment, or the credential itself, which is sealed. */
export type NewCredential = { variable: string } | { credential: string } | null

export interface Added extends Edited {
  /** Sentences: models of the list that stay as they are, and those that were there and get a further route. */
  notes: string[]
  /** The slugs of the latter: whose requests may go to this upstream, too. */
  further: string[]
  /** The slugs of models that are new. */
  fresh: string[]
  /** Those among them that nobody knows the price of. */
  unpriced: string[]
}

/** The row that an upstream would have. */
export const toUpstreamRow = (wanted: NewUpstream, credential: NewCredential, nowMs: number): UpstreamRow => ({
  ...wanted,
  apiKeyRef: credential !== null && 'variable' in credential ? `\${${credential.variable}}` : null,
  ...{ enabled: true, deadlines: {}, origin: 'admin', createdMs: nowMs, updatedMs: nowMs },
})

/** Throws `invalid` with the field, and `upstream_exists`. */
export function requireNewUpstream({ upstreams }: { upstreams: readonly { id: string }[] }, row: UpstreamRow): void {
  requireSoundUpstream(row, (path) => path || 'base_url')
  if (upstreams.some(({ id }) => id === row.id))
    throw new ServiceError({ kind: 'upstream_exists', upstream: row.id }, `There is an upstream ${row.id} already.`)
}

/** Makes an upstream with its models. Throws what `requireNewUpstream` does, and `secret_unusable`. */
export async function addUpstream(
  { store, vault }: AddDeps,
  wanted: { upstream: NewUpstream; credential: NewCredential; models: DeclaredModel[] },
  by: EditBy,
): Promise<Added> {
  const { credential, models } = wanted
  const row = toUpstreamRow(wanted.upstream, credential, by.nowMs)
  requireNewUpstream(await store.readCatalog(), row)
  const isTyped = credential !== null && 'credential' in credential
  // A plan writes nothing.
  const sealed = !isTyped ? null : by.isPlan ? CLEARED : await vault.seal(credential.credential, row)
  return changeCatalog(
    store,
    by,
    { action: 'upstreams.create', subject: row.id },
    ({ layers, rows }): Decision<Told> => {
      requireNewUpstream(rows, row)
      const found = withModels(toState(withEntry(layers, 'upstreams', row)), row.id, models, by.nowMs)
      if (sealed === null) return found
      vault.requireCurrent([sealed])
      const aside = { name: `upstreams.${row.id}`, origin: row.origin, before: {}, after: { api_key: 'typed in' } }
      return { ...found, credentials: [{ id: row.id, sealed: [sealed] }], aside }
    },
  )
}

type Told = Pick<Added, 'notes' | 'further' | 'fresh' | 'unpriced'>

/** Adds models to an upstream that there is; what it has already stays as it is. Throws `upstream_not_found`. */
export const addModels = (store: ConfigStore, id: string, models: DeclaredModel[], by: EditBy): Promise<Added> =>
  changeCatalog(store, by, { action: 'upstreams.edit', subject: id }, (state) => {
    findUpstream(state.rows, id)
    return withModels(state, id, models, by.nowMs)
  })

/** What is new becomes an entry of what was found out, and what is there already a further route. */
function withModels(state: State, upstream: string, models: DeclaredModel[], nowMs: number): Decision<Told> {
  const { rows } = state
  const existing = new Map(rows.models.map((row) => [row.slug, row]))
  const aliases = new Set(rows.aliases.map(({ alias }) => alias))
  const staying: string[] = []
  const fresh = models.filter(({ slug }) => {
    if (aliases.has(slug)) staying.push(`${slug}: an alias has this name, and keeps it.`)
    return !existing.has(slug) && !aliases.has(slug)
  })
  const found = withLayer(
    state,
    { upstreams: [], models: fresh, aliases: [] },
    { origin: 'discovered', prune: false, nowMs },
  )
  const prices: PriceRow[] = [...found.prices]
  const routes: RouteRow[] = []
  for (const model of models) {
    const row = existing.get(model.slug)
    if (!row) continue
    const further = toFurtherRoute(rows, upstream, row, model)
    if (typeof further === 'string') staying.push(further)
    else if (further !== null) {
      const price = toPrice(undefined, { model: row.slug, upstream, pricing: further.pricing ?? [] }, nowMs)
      routes.push({ ...further, priceId: price.priceId })
      if (price.row) prices.push(price.row)
    }
  }
  const further = routes.map(({ model }) => model)
  const notes = toFew(staying)
  if (further.length > 0)
    notes.push(
      `There already, and with a further route from now on, to ${upstream}, behind those that they have: ${further.join(', ')}. Where the others fail or are busy, ${upstream} is sent their requests.`,
    )
  const slugsOf = (those: DeclaredModel[]) => those.map(({ slug }) => slug)
  const unpriced = slugsOf(fresh.filter(({ pricing }) => pricing.length === 0))
  return {
    layers: routes.reduce((layers, route) => withEntry(layers, 'routes', route), found.layers),
    prices,
    more: { notes, further, fresh: slugsOf(fresh), unpriced },
  }
}

/**
 * A second way to a model, which is taken where the others fail; null where it is there, a sentence where it is not to be.
 * It has a price of its own, and what it can do less than the model.
 */
function toFurtherRoute(
  rows: CatalogRows,
  upstream: string,
  row: ModelRow,
  model: DeclaredModel,
): RouteRow | string | null {
  const own = rows.routes.filter((route) => route.model === row.slug)
  const [declared] = model.routes
  if (!declared || own.some((one) => one.upstream === upstream && one.upstreamModel === declared.upstreamModel))
    return null
  if (row.origin !== 'discovered')
    return `${row.slug}: the model is there already, and its ${row.origin}'s: give it a route to ${upstream} there, if it is to have one.`
  if (model.pricing.length === 0)
    return `${row.slug}: the model is there already, and nobody knows what it costs at ${upstream}: no route is added.`
  const { contextLength, maxOutputLength, supportedFeatures } = model
  const lacksSome = row.supportedFeatures.some((feature) => !supportedFeatures.includes(feature))
  return {
    ...declared,
    model: row.slug,
    priority: Math.max(-1, ...own.map(({ priority }) => priority)) + 1,
    pricing: model.pricing,
    priceId: null,
    contextLength: contextLength < row.contextLength ? contextLength : null,
    maxOutputLength: maxOutputLength < row.maxOutputLength ? maxOutputLength : null,
    supportedFeatures: lacksSome ? supportedFeatures.filter((one) => row.supportedFeatures.includes(one)) : null,
    origin: 'discovered',
  }
}
