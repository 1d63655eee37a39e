/**
 * Adds a provider: its upstream becomes the administrator's, its models, routes, and prices are `discovered`, so files
 * override them and refreshes update them.
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
import { STORED } from './edit-upstream.ts'

export interface AddDeps {
  store: ConfigStore
  vault: Pick<Vault, 'seal' | 'requireCurrent'>
}

export type NewUpstream = Pick<UpstreamRow, 'id' | 'dialect' | 'baseUrl' | 'local' | 'options'>

/** A variable of the server's environment, or the credential, which is stored encrypted. */
export type NewCredential = { variable: string } | { credential: string } | null

export interface Added extends Edited {
  /** Sentences about unchanged models and further routes. */
  notes: string[]
  /** Existing models that get a route to this upstream. */
  further: string[]
  /** New models. */
  fresh: string[]
  /** Without a known price. */
  unpriced: string[]
}

export const toUpstreamRow = (wanted: NewUpstream, credential: NewCredential, nowMs: number): UpstreamRow => ({
  ...wanted,
  apiKeyRef: credential !== null && 'variable' in credential ? `\${${credential.variable}}` : null,
  ...{ enabled: true, deadlines: {}, origin: 'admin', createdMs: nowMs, updatedMs: nowMs },
})

/** @throws `invalid` with the field, and `upstream_exists`. */
export function requireNewUpstream({ upstreams }: { upstreams: readonly { id: string }[] }, row: UpstreamRow): void {
  requireSoundUpstream(row, (path) => path || 'base_url')
  if (upstreams.some(({ id }) => id === row.id))
    throw new ServiceError({ kind: 'upstream_exists', upstream: row.id }, `Upstream ${row.id} already exists.`)
}

/** @throws what `requireNewUpstream` does, and `secret_unusable`. */
export async function addUpstream(
  { store, vault }: AddDeps,
  wanted: { upstream: NewUpstream; credential: NewCredential; models: DeclaredModel[] },
  by: EditBy,
): Promise<Added> {
  const { credential, models } = wanted
  const row = toUpstreamRow(wanted.upstream, credential, by.nowMs)
  requireNewUpstream(await store.readCatalog(), row)
  const isTyped = credential !== null && 'credential' in credential
  // Planning must not create an encryption key.
  const sealed = !isTyped ? null : by.isPlan ? CLEARED : await vault.seal(credential.credential, row)
  return changeCatalog(
    store,
    by,
    { action: 'upstreams.create', subject: row.id },
    ({ layers, rows }): Decision<AddDetails> => {
      requireNewUpstream(rows, row)
      const found = withModels(toState(withEntry(layers, 'upstreams', row)), row.id, models, by.nowMs)
      if (sealed === null) return found
      vault.requireCurrent([sealed])
      const aside = { name: `upstreams.${row.id}`, origin: row.origin, before: {}, after: { api_key: STORED } }
      return { ...found, credentials: [{ id: row.id, sealed: [sealed] }], aside }
    },
  )
}

type AddDetails = Pick<Added, 'notes' | 'further' | 'fresh' | 'unpriced'>

/** Leaves existing models and routes as they are. Throws `upstream_not_found`. */
export const addModels = (store: ConfigStore, id: string, models: DeclaredModel[], by: EditBy): Promise<Added> =>
  changeCatalog(store, by, { action: 'upstreams.edit', subject: id }, (state) => {
    findUpstream(state.rows, id)
    return withModels(state, id, models, by.nowMs)
  })

/** New models become discovered entries; existing ones get another route. */
function withModels(state: State, upstream: string, models: DeclaredModel[], nowMs: number): Decision<AddDetails> {
  const { rows } = state
  const existing = new Map(rows.models.map((row) => [row.slug, row]))
  const aliases = new Set(rows.aliases.map(({ alias }) => alias))
  const staying: string[] = []
  const fresh = models.filter(({ slug }) => {
    if (aliases.has(slug)) staying.push(`${slug}: skipped, because an alias has this name.`)
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
      `Already exist, and get a fallback route to ${upstream}: ${further.join(', ')}. If their other routes fail or are busy, ${upstream} receives the requests.`,
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
 * A fallback route with its own price, narrowed to what this provider supports; null if it exists, a sentence if
 * impossible.
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
    return `${row.slug}: already set by ${row.origin}, so no route was added. To add one to ${upstream}, change it there.`
  if (model.pricing.length === 0)
    return `${row.slug}: already exists, and its price at ${upstream} is unknown. No route was added.`
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
