/** Models, routes, and prices in JSON, for the CLI and the admin API, with their readiness. */
import { type Static, Type } from '@sinclair/typebox'
import { Model as ModelFields, Route as RouteFields, saysOf } from '../catalog/fields.ts'
import type { PublicModel as WirePublicModel } from '../catalog/public.ts'
import { toRevision } from '../domain/changes.ts'
import { SERVER_STATES } from '../domain/model-server.ts'
import { FEATURES, MODALITIES, UPSTREAM_DISABLED } from '../domain/models.ts'
import type { CatalogModel, Target } from '../domain/snapshot.ts'
import { isReady } from '../domain/upstream-state.ts'
import { mapPrices, type PricingItem } from '../domain/usage.ts'
import type { CatalogRows, ModelRow, PriceRow, RouteRow } from '../store/catalog-rows.ts'
import { toCatalog } from '../store/snapshot.ts'
import { Count, describes, Flag, orNull, Revision, Text, TextOrNull, Time, wordOf } from './fields.ts'
import { SERVED, type ShownUpstream } from './upstream.ts'

/** USD per token, except `request` (per call) and those of units. */
export const Pricing = describes<PricingItem>()(
  Type.Object({
    ...mapPrices(() => Type.Optional(Type.String({ description: 'USD, as a decimal.' }))),
    prompt: Type.String({ description: 'USD per token, as a decimal.' }),
    completion: Type.String({ description: 'USD per token, as a decimal.' }),
    second: Type.Optional(Type.String({ description: 'USD per second of compute on a local server, as a decimal.' })),
    mode: Type.Optional(
      Type.String({ description: 'Applies to calls that the upstream reports as served in this mode.' }),
    ),
    size: Type.Optional(Type.String({ description: 'Applies to images of this size, such as 1024x1024.' })),
    quality: Type.Optional(Type.String({ description: 'Applies to images of this quality, such as high.' })),
    min_prompt_tokens: Type.Optional(Type.Integer({ description: 'Applies to prompts longer than this.' })),
    audio_min_seconds: Type.Optional(Type.Integer({ description: 'Audio is charged for at least so long.' })),
    audio_step_seconds: Type.Optional(Type.Integer({ description: 'Audio is charged in whole steps of this.' })),
  }),
)

const is_ready = orNull(Type.Boolean({ description: 'null: unknown, since no server is running.' }))

export const Route = Type.Object({
  revision: Revision,
  ...{ upstream: Text, upstream_model: Text },
  priority: Type.Integer(saysOf(RouteFields, 'priority')),
  weight: Type.Integer(saysOf(RouteFields, 'weight')),
  pricing: Type.Array(Pricing, { description: 'Prices of a call; empty: free.' }),
  own_price: Type.Boolean({ description: "True if the price is the route's own; false: its model's." }),
  price_id: TextOrNull,
  context_length: Type.Integer(saysOf(RouteFields, 'context_length')),
  max_output_length: Type.Integer(saysOf(RouteFields, 'max_output_length')),
  supported_features: Type.Array(Text, saysOf(RouteFields, 'supported_features')),
  /** Null if not set. */
  thinking: orNull(Type.String(saysOf(RouteFields, 'thinking'))),
  efforts: orNull(Type.Array(Text, saysOf(RouteFields, 'efforts'))),
  thinking_off: orNull(Type.Boolean(saysOf(RouteFields, 'thinking_off'))),
  thinking_unasked: orNull(Type.Boolean(saysOf(RouteFields, 'thinking_unasked'))),
  sampling: orNull(Type.Boolean(saysOf(RouteFields, 'sampling'))),
  enabled: Type.Boolean(saysOf(RouteFields, 'enabled')),
  ...{ origin: Text, is_ready, reason: TextOrNull },
  served: orNull(
    Type.Object(
      { state: orNull(wordOf(SERVER_STATES)), ...SERVED },
      { description: 'Data reported by the local server; null: none, or the upstream is not local.' },
    ),
  ),
})
export type ShownRoute = Static<typeof Route>

export const ListedModel = Type.Object({
  ...{ slug: Text, revision: Revision, name: Text, owned_by: Text },
  context_length: Type.Integer(saysOf(ModelFields, 'context_length')),
  max_output_length: Type.Integer(saysOf(ModelFields, 'max_output_length')),
  ...{ input_modalities: Type.Array(Text), output_modalities: Type.Array(Text) },
  supported_features: Type.Array(Text, saysOf(ModelFields, 'supported_features')),
  pricing: Type.Array(Pricing),
  enabled: Type.Boolean(saysOf(ModelFields, 'enabled')),
  listed: Type.Boolean(saysOf(ModelFields, 'listed')),
  from_wildcard: Type.Boolean(saysOf(ModelFields, 'from_wildcard')),
  origin: Type.String({
    description: 'One of builtin, discovered, file, and admin. Later ones override earlier ones.',
  }),
  is_ready,
  reason: orNull(Type.String({ description: 'Why the model is not ready.' })),
  routes: Type.Array(Route, { description: 'By priority; disabled routes last.' }),
})
export type ShownModel = Static<typeof ListedModel>

export const Price = Type.Object({
  id: Text,
  upstream: orNull(Type.String({ description: 'Upstream of the route with this price; null: price of the model.' })),
  ...{ pricing: Type.Array(Pricing), created_ms: Time },
  in_force: Type.Boolean({ description: 'True if this price is currently charged.' }),
})
export type PriceOfModel = Static<typeof Price>

export const WholeModel = Type.Object({
  ...ListedModel.properties,
  ...{ aliases: Type.Array(Text), prices: Type.Array(Price) },
})

export const Alias = Type.Object({ alias: Text, model: Text, listed: Flag })

/** Upstream states; `serves`: true if a running server reported them. */
export interface KnownUpstreams {
  upstreams: ReadonlyMap<string, ShownUpstream>
  serves: boolean
}

export const toKnown = (rows: readonly ShownUpstream[], serves: boolean): KnownUpstreams => ({
  upstreams: new Map(rows.map((row) => [row.id, row])),
  serves,
})

/** Why no target of a model can be called; null if one can. */
export function toReasons({ targets }: Pick<CatalogModel, 'targets'>, known: KnownUpstreams): string | null {
  if (targets.length === 0) return 'no enabled route'
  const reasons = targets.map((target) => {
    const reason = toReason(target, known)
    return reason === null ? null : `upstream ${target.upstream.id}: ${reason}`
  })
  return reasons.includes(null) ? null : [...new Set(reasons)].join('; ')
}

/** Why a target can't be called; null if it can, as far as known. */
export function toReason(
  { model, upstream, upstreamModel }: Target,
  { upstreams, serves }: KnownUpstreams,
): string | null {
  const row = upstreams.get(upstream.id)
  // Without a server, only missing credentials of this environment are known.
  if (!serves) return row ? row.reason : upstream.notReady
  const target = row?.targets.find((each) => each.model === model && each.upstream_model === upstreamModel)
  // Models without failures of their own may still work.
  const isOut = row && !isReady(row) && !(row.state === 'failing' && target?.breaker === 'closed')
  if (isOut) return row.reason ?? row.state
  return target?.breaker === 'open' && target.open_for_keys === null
    ? `${target.failures_in_a_row} consecutive failures; circuit breaker open`
    : null
}

/** All models by ID, including disabled ones. */
export function toModelDocuments(rows: CatalogRows, known: KnownUpstreams): ShownModel[] {
  const models = new Map(rows.models.map((row) => [row.slug, row]))
  const routesOf = Map.groupBy(rows.routes, ({ model }) => model)
  const local = new Set(rows.upstreams.flatMap((row) => (row.local ? row.id : [])))
  const all = rows.models.map((row) => ({ ...row, enabled: true }))
  const documents = [...toCatalog({ ...rows, models: all }, {}).models.values()].flatMap((model) => {
    const row = models.get(model.facts.id)
    const routes = routesOf.get(model.facts.id) ?? []
    return row ? toModelDocument(model, row, routes, local, known) : []
  })
  return documents.sort((a, b) => (a.slug < b.slug ? -1 : 1))
}

function toModelDocument(
  model: CatalogModel,
  row: ModelRow,
  routes: readonly RouteRow[],
  local: ReadonlySet<string>,
  known: KnownUpstreams,
): ShownModel {
  const { enabled, origin } = row
  const { facts, listed, fromWildcard, targets } = model
  const shown = targets.flatMap((target) => {
    const route = routes.find((one) => leadsTo(one, target))
    return route ? toRoute(route, target, known) : []
  })
  const others = routes.filter((route) => !targets.some((target) => leadsTo(route, target)))
  return {
    slug: facts.id,
    revision: toRevision(row),
    name: facts.name,
    owned_by: facts.owned_by,
    context_length: facts.context_length,
    max_output_length: facts.max_output_length,
    input_modalities: facts.input_modalities,
    output_modalities: facts.output_modalities,
    supported_features: facts.supported_features,
    pricing: facts.pricing,
    enabled,
    listed,
    from_wildcard: fromWildcard,
    origin,
    ...toReadiness(
      enabled ? toReasons(model, known) : facts.pricing.length > 0 ? 'the model is disabled' : UNPRICED,
      known,
    ),
    routes: [...shown, ...others.map((route) => toDisabled(route, model, local.has(route.upstream)))],
  }
}

const UNPRICED = 'unpriced: disabled until a price is set'

const leadsTo = ({ upstream, upstreamModel }: RouteRow, target: Target): boolean =>
  target.upstream.id === upstream && target.upstreamModel === upstreamModel

const toReadiness = (reason: string | null, { serves }: KnownUpstreams) => ({
  is_ready: reason !== null ? false : serves ? true : null,
  reason,
})

const toThinking = ({ options }: RouteRow) => ({
  thinking: options.thinking ?? null,
  efforts: options.efforts ?? null,
  thinking_off: options.thinking_off ?? null,
  thinking_unasked: options.thinking_unasked ?? null,
  sampling: options.sampling ?? null,
})

const toRoute = (row: RouteRow, target: Target, known: KnownUpstreams): ShownRoute => ({
  revision: toRevision(row),
  upstream: target.upstream.id,
  upstream_model: target.upstreamModel,
  priority: target.priority,
  weight: target.weight,
  pricing: target.pricing,
  own_price: row.pricing !== null,
  price_id: target.priceId,
  context_length: target.contextLength,
  max_output_length: target.maxOutputLength,
  supported_features: [...target.features],
  ...toThinking(row),
  enabled: row.enabled,
  origin: row.origin,
  ...toReadiness(toReason(target, known), known),
  served: toServed(target, known),
})

function toServed({ upstream, upstreamModel }: Target, { upstreams }: KnownUpstreams): ShownRoute['served'] {
  const row = upstreams.get(upstream.id)
  const found = row?.served.find(({ upstream_model: name }) => name === upstreamModel)
  if (!row || !found) return null
  const { upstream_model: _, ...figures } = found
  return { state: row.process?.state ?? null, ...figures }
}

/** A route that is disabled, or whose upstream or model is. */
function toDisabled(row: RouteRow, { facts }: CatalogModel, isLocal: boolean): ShownRoute {
  return {
    revision: toRevision(row),
    upstream: row.upstream,
    upstream_model: row.upstreamModel,
    priority: row.priority,
    weight: row.weight,
    pricing: row.pricing ?? (isLocal ? [] : facts.pricing),
    own_price: row.pricing !== null,
    price_id: row.priceId,
    context_length: row.contextLength ?? facts.context_length,
    max_output_length: row.maxOutputLength ?? facts.max_output_length,
    supported_features: row.supportedFeatures ?? facts.supported_features,
    ...toThinking(row),
    enabled: row.enabled,
    origin: row.origin,
    is_ready: false,
    reason: row.enabled ? (facts.pricing.length > 0 ? UPSTREAM_DISABLED : UNPRICED) : 'the route is disabled',
    served: null,
  }
}

/** A model with its price history. Its own price is effective even if no route is charged by it. */
export function toShownModel(
  shown: ShownModel,
  rows: CatalogRows,
  priceRows: readonly PriceRow[],
): Static<typeof WholeModel> {
  const { slug, routes } = shown
  const model = rows.models.find((row) => row.slug === slug)
  const inForce = new Set([model?.priceId, ...routes.map(({ price_id: id }) => id)])
  const prices: PriceOfModel[] = priceRows.map(({ id, upstream, pricing, createdMs }) => ({
    ...{ id, upstream, pricing, created_ms: createdMs },
    in_force: inForce.has(id),
  }))
  const aliases = rows.aliases.filter(({ model: of }) => of === slug).map(({ alias }) => alias)
  return { ...shown, aliases, prices }
}

export const toAliasDocuments = ({ aliases }: Pick<CatalogRows, 'aliases'>): Static<typeof Alias>[] =>
  aliases.map(({ alias, model, listed }) => ({ alias, model, listed }))

/** A model in `GET /v1/models`. */
export const PublicModel = describes<WirePublicModel>()(
  Type.Object({
    id: Type.String({ description: 'Model ID or alias to use in requests.' }),
    object: Type.Literal('model'),
    owned_by: Text,
    created: Type.Integer({ description: 'Seconds since 1970.' }),
    name: Text,
    context_length: Count,
    max_output_length: Count,
    input_modalities: Type.Array(wordOf(MODALITIES)),
    output_modalities: Type.Array(wordOf(MODALITIES)),
    supported_features: Type.Array(wordOf(FEATURES)),
    pricing: Type.Array(Pricing),
    alias_of: Type.Optional(Type.String({ description: 'Model ID that the alias refers to.' })),
    type: Type.Literal('model'),
    display_name: Type.String({ description: 'Same as `name`.' }),
    created_at: Type.String({ description: 'Same as `created`, in RFC 3339 format.' }),
    max_input_tokens: Type.Integer({ minimum: 0, description: 'Same as `context_length`.' }),
    max_tokens: Type.Integer({ minimum: 0, description: 'Same as `max_output_length`.' }),
    lifecycle: Type.Literal('active'),
    ...{ deprecated_at: Type.Null(), retires_at: Type.Null(), line: Type.Null(), capabilities: Type.Null() },
    allowed_fallback_models: Type.Null(),
    quantization: Type.Optional(
      Type.String({ description: 'Quantization of the weights, if a local server reports it.' }),
    ),
    size_bytes: Type.Optional(Type.Integer({ description: 'Size of the weights, if a local server reports it.' })),
    is_ready: Type.Boolean({ description: 'True if the model can be called now.' }),
    state: Type.Optional(
      Type.Union(
        SERVER_STATES.map((state) => Type.Literal(state)),
        { description: 'State of a model server run by Tollgate. A request starts a stopped one.' },
      ),
    ),
    tokens_per_second: Type.Optional(
      orNull(
        Type.Number({
          description: 'Recent output speed of a local server; null: not measured yet.',
        }),
      ),
    ),
  }),
)
