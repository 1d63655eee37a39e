/** Builds the snapshot that requests read from a store's rows. */

import { isBuiltIn } from '../domain/dialects.ts'
import type { ProcessHashes } from '../domain/model-server.ts'
import type {
  CatalogModel,
  Environment,
  Key,
  ModelPrice,
  OpenedCredentials,
  Secret,
  Snapshot,
  Target,
  Team,
  Upstream,
} from '../domain/snapshot.ts'
import type { CatalogRows, ModelRow, RouteRow } from './catalog-rows.ts'
import type { Configuration, StoredKey, StoredTeam } from './config-store.ts'
import { NO_PRICES, toUpstream } from './upstream.ts'

const NOTHING_OPENED: OpenedCredentials = new Map()

/**
 * @param opened decrypted stored credentials.
 * @param processes commands of model servers; absent if none may be started.
 */
export function toSnapshot(
  rows: Configuration,
  environment: Environment,
  opened: OpenedCredentials = NOTHING_OPENED,
  processes?: ProcessHashes,
): Snapshot {
  return {
    revision: rows.revision,
    secrets: new Map(rows.keys.flatMap(toSecrets)),
    playgrounds: new Map(rows.keys.flatMap(toPlayground)),
    teams: new Map(rows.teams.map(toTeam)),
    ...toCatalog(rows, environment, opened, processes),
  }
}

export function toCatalog(
  rows: CatalogRows,
  environment: Environment,
  opened: OpenedCredentials = NOTHING_OPENED,
  processes?: ProcessHashes,
): Pick<Snapshot, 'models' | 'aliases' | 'upstreams'> {
  const prices = toPrices(rows)
  const upstreams = new Map(
    rows.upstreams
      .filter((row) => row.enabled)
      .map((row) => {
        const upstream = toUpstream(row, environment, 'on the server', opened.get(row.id))
        const notReady = upstream.notReady ?? (processes ? whyNotRun(upstream, processes) : null)
        const own = { prices: prices.get(row.id) ?? NO_PRICES, notReady }
        return [row.id, { ...upstream, ...own, each: upstream.each?.map((one) => ({ ...one, ...own })) ?? null }]
      }),
  )
  return {
    models: toModels(rows.models, rows.routes, upstreams),
    aliases: new Map(rows.aliases.map(({ alias, model, listed }) => [alias, { model, listed }])),
    upstreams,
  }
}

/** A route's own price, else free on a local upstream, else the model's. */
function toPrice(route: RouteRow, model: ModelRow, isLocal: boolean): ModelPrice {
  if (route.pricing) return { pricing: route.pricing, priceId: route.priceId }
  return isLocal ? { pricing: [], priceId: null } : { pricing: model.pricing, priceId: model.priceId }
}

/** By the upstreams' model names, including disabled ones. */
function toPrices({ upstreams, models, routes }: CatalogRows): Map<string, Map<string, ModelPrice>> {
  const local = new Set(upstreams.flatMap((row) => (row.local ? row.id : [])))
  const rows = new Map(models.map((row) => [row.slug, row]))
  const prices = new Map<string, Map<string, ModelPrice>>()
  for (const route of routes) {
    const model = rows.get(route.model)
    if (!model) continue
    const isLocal = local.has(route.upstream)
    // A model without a known price is not free.
    if (!isLocal && route.pricing === null && model.pricing.length === 0) continue
    const price = toPrice(route, model, isLocal)
    prices.getOrInsertComputed(route.upstream, () => new Map()).getOrInsertComputed(route.upstreamModel, () => price)
  }
  return prices
}

/** Reason, for administrators. */
function whyNotRun({ id, process }: Upstream, { byUpstream }: ProcessHashes): string | null {
  const spec = byUpstream.get(id)
  if (process === null || spec?.hash === process) return null
  return spec
    ? 'its process in the file differs from the catalog: apply the file (with --discard-edits if the upstream was changed manually)'
    : 'its process is not run: commands are only taken from the file that serve --catalog names, and from files in models.d of the data folder that only their owner can write'
}

/** Rows are never changed in place. */
const SECRETS = new WeakMap<StoredKey, [hash: string, Secret][]>()

function toSecrets(stored: StoredKey): [hash: string, Secret][] {
  const known = SECRETS.get(stored)
  if (known) return known
  const { secrets } = stored
  const key = toKey(stored)
  const made = secrets.map(({ hash, lastFour, expiresMs }): [string, Secret] => [hash, { key, lastFour, expiresMs }])
  SECRETS.set(stored, made)
  return made
}

const toPlayground = (stored: StoredKey): [ownerId: string, Key][] =>
  stored.hidden && stored.ownerId !== null ? [[stored.ownerId, toKey(stored)]] : []

const toKey = ({
  secrets: _,
  metadata: __,
  createdMs: ___,
  hidden: ____,
  ceilings: _____,
  ...key
}: StoredKey): Key => ({
  ...key,
  quotaId: key.ownerId ?? key.id,
})

const toTeam = ({ maxKeys: _, metadata: __, createdMs: ___, ...team }: StoredTeam): [string, Team] => [team.id, team]

function toModels(
  modelRows: ModelRow[],
  routeRows: RouteRow[],
  upstreams: ReadonlyMap<string, Upstream>,
): Map<string, CatalogModel> {
  const rows = new Map(modelRows.filter((row) => row.enabled).map((row) => [row.slug, row]))
  const bySlug = new Map([...rows].map(([slug, row]) => [slug, toModel(row)]))
  for (const route of routeRows) {
    const row = rows.get(route.model)
    const upstream = upstreams.get(route.upstream)
    if (route.enabled && row && upstream && isPriced(route, row, upstream))
      bySlug.get(row.slug)?.targets.push(toTarget(route, row, upstream))
  }
  // Stable: routes of equal priority keep the order of their rows.
  for (const model of bySlug.values()) model.targets.sort((a, b) => a.priority - b.priority)
  return bySlug
}

function toModel(row: ModelRow): CatalogModel {
  return {
    listed: row.listed,
    fromWildcard: row.fromWildcard,
    origin: row.origin,
    facts: {
      id: row.slug,
      object: 'model',
      owned_by: row.ownedBy,
      created: Math.floor(row.createdMs / 1000),
      name: row.name,
      context_length: row.contextLength,
      max_output_length: row.maxOutputLength,
      input_modalities: row.inputModalities,
      output_modalities: row.outputModalities,
      supported_features: row.supportedFeatures,
      pricing: row.pricing,
    },
    targets: [],
  }
}

/** Not called until they have a price. */
const isPriced = ({ pricing }: RouteRow, model: ModelRow, upstream: Upstream): boolean =>
  pricing !== null || upstream.local || isBuiltIn(upstream) || model.pricing.length > 0

/** A target may have lower limits than its model, never higher, because clients rely on the model's facts. */
function toTarget(route: RouteRow, model: ModelRow, upstream: Upstream): Target {
  const contextLength = Math.min(route.contextLength ?? model.contextLength, model.contextLength)
  const { supportedFeatures } = route
  return {
    model: route.model,
    upstream,
    upstreamModel: route.upstreamModel,
    priority: route.priority,
    weight: route.weight,
    ...toPrice(route, model, upstream.local),
    // Output counts toward the context window.
    maxOutputLength: Math.min(route.maxOutputLength ?? model.maxOutputLength, model.maxOutputLength, contextLength),
    contextLength,
    features: supportedFeatures
      ? model.supportedFeatures.filter((feature) => supportedFeatures.includes(feature))
      : model.supportedFeatures,
    options: route.options,
    origin: route.origin,
  }
}
