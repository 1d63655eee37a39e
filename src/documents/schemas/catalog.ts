/** What is told of models, upstreams and the catalogue that declares them. */
import { Type } from '@sinclair/typebox'
import type { ApplySummary } from '../../catalog/apply.ts'
import type { Reverted } from '../../catalog/history.ts'
import type { PublicModel as WirePublicModel } from '../../catalog/public.ts'
import { FEATURES, MODALITIES, ORIGINS } from '../../domain/settings.ts'
import type { PricingItem } from '../../domain/usage.ts'
import type { toEditDocument, toPlanDocument, toShownVersionDocument, toVersionDocument } from '../catalog.ts'
import type { PriceOfModel, ShownModel, ShownRoute, toAliasDocuments, toShownModel } from '../model.ts'
import type { ShownPreset, ShownUpstream, UpstreamTest } from '../upstream.ts'
import {
  Count,
  CountOrNull,
  describes,
  Fields,
  Flag,
  orNull,
  Text,
  TextOrNull,
  Time,
  TimeOrNull,
  wordOf,
} from './describes.ts'

const price = Type.Optional(Type.String({ description: 'USD, a decimal.' }))

/** Of tokens, each in USD; `request` of a call, `web_search` of a search. */
export const Pricing = describes<PricingItem>()(
  Type.Object({
    prompt: Type.String({ description: 'USD per token, a decimal.' }),
    completion: Type.String({ description: 'USD per token, a decimal.' }),
    ...{ input_cache_read: price, input_cache_write: price, input_cache_write_1h: price, internal_reasoning: price },
    ...{ audio: price, audio_completion: price, image_token: price, image_token_completion: price },
    ...{ image: price, request: price, web_search: price },
    mode: Type.Optional(Type.String({ description: 'It holds for calls that their upstream says it served so.' })),
    min_prompt_tokens: Type.Optional(Type.Integer({ description: 'It holds for longer prompts than this.' })),
  }),
)

const is_ready = orNull(Type.Boolean())

export const Route = describes<ShownRoute>()(
  Type.Object({
    upstream: Text,
    upstream_model: Text,
    priority: Count,
    weight: Count,
    pricing: Type.Array(Pricing),
    own_price: Flag,
    price_id: TextOrNull,
    context_length: Count,
    max_output_length: Count,
    supported_features: Type.Array(Text),
    thinking: orNull(Type.String({ description: 'null: nothing is said of it.' })),
    efforts: orNull(Type.Array(Text)),
    thinking_off: orNull(Flag),
    thinking_unasked: orNull(Flag),
    sampling: orNull(Flag),
    enabled: Flag,
    origin: Text,
    is_ready,
    reason: TextOrNull,
  }),
)

export const ListedModel = describes<ShownModel>()(
  Type.Object({
    slug: Text,
    name: Text,
    owned_by: Text,
    context_length: Count,
    max_output_length: Count,
    input_modalities: Type.Array(Text),
    output_modalities: Type.Array(Text),
    supported_features: Type.Array(Text),
    pricing: Type.Array(Pricing),
    enabled: Flag,
    listed: Flag,
    from_wildcard: Flag,
    origin: Text,
    is_ready,
    reason: TextOrNull,
    routes: Type.Array(Route),
  }),
)

export const Price = describes<PriceOfModel>()(
  Type.Object({
    id: Text,
    upstream: TextOrNull,
    pricing: Type.Array(Pricing),
    created_ms: Time,
    in_force: Flag,
  }),
)

export const WholeModel = describes<ReturnType<typeof toShownModel>>()(
  Type.Object({ ...ListedModel.properties, aliases: Type.Array(Text), prices: Type.Array(Price) }),
)

export const Alias = describes<ReturnType<typeof toAliasDocuments>[number]>()(
  Type.Object({ alias: Text, model: Text, listed: Flag }),
)

/** A model as clients are told of it: `GET /v1/models`. */
export const PublicModel = describes<WirePublicModel>()(
  Type.Object({
    id: Type.String({ description: 'What it is asked for by: its slug, or an alias.' }),
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
    alias_of: Type.Optional(Type.String({ description: 'The slug that an alias stands for.' })),
    type: Type.Literal('model'),
    display_name: Type.String({ description: 'As `name`.' }),
    created_at: Type.String({ description: 'As `created`, by RFC 3339.' }),
    max_input_tokens: Type.Integer({ minimum: 0, description: 'As `context_length`.' }),
    max_tokens: Type.Integer({ minimum: 0, description: 'As `max_output_length`.' }),
    is_ready: Type.Boolean({ description: 'Whether it can be called now.' }),
  }),
)

export const Upstream = describes<ShownUpstream>()(
  Type.Object({
    id: Text,
    dialect: Text,
    preset: TextOrNull,
    base_url: TextOrNull,
    local: Flag,
    deadlines: Type.Object({
      ...{ headers_ms: Count, first_token_ms: Count, idle_ms: Count, total_ms: Count, total_whole_ms: Count },
    }),
    limits: Type.Object({ rpm: CountOrNull, tpm: CountOrNull, concurrency: CountOrNull }),
    state: wordOf(['healthy', 'degraded', 'refused', 'down', 'unknown', 'not_ready', 'disabled'] as const),
    reason: TextOrNull,
    enabled: Flag,
    origin: Text,
    credential: orNull(Type.Object({ variable: TextOrNull, status: wordOf(['set', 'not_set'] as const) })),
    credentials: Type.Array(
      Type.Object({
        number: Count,
        from: wordOf(['variable', 'file', 'typed_in'] as const),
        name: TextOrNull,
        status: wordOf(['set', 'not_set', 'left_out'] as const),
        reason: TextOrNull,
        back_in_ms: CountOrNull,
      }),
    ),
    last_ok_ms: TimeOrNull,
    last_error: orNull(Type.Object({ message: Text, at_ms: Time })),
    targets: Type.Array(
      Type.Object({
        model: Text,
        upstream_model: Text,
        breaker: wordOf(['closed', 'open', 'half_open'] as const),
        open_for_keys: CountOrNull,
        failures_in_a_row: Count,
        retry_in_ms: CountOrNull,
        reason: TextOrNull,
      }),
    ),
  }),
)

export const Preset = describes<ShownPreset>()(
  Type.Object({
    ...{ id: Text, name: Text, dialect: Text },
    base_url: orNull(Type.String({ description: 'null: each customer has another one, such as the example.' })),
    example: TextOrNull,
    variable: Type.String({ description: 'Which variable its own libraries read the credential from.' }),
  }),
)

export const TestedUpstream = describes<UpstreamTest>()(
  Type.Object({ id: Text, state: Text, reason: TextOrNull, ms: CountOrNull }),
)

const origin = wordOf(ORIGINS)
const planned = Type.Boolean({ description: 'Whether nothing was changed: it was asked for as a plan.' })
const Counts = { created: Count, updated: Count, deleted: Count, adopted: Count, unchanged: Count }
const Change = Type.Object({
  action: wordOf(['create', 'update', 'delete'] as const),
  ...{ name: Text, origin, before: Fields, after: Fields },
})
const Adoption = Type.Object({ name: Text, before: origin, after: origin })
const Changes = { changes: Type.Array(Change), adoptions: Type.Array(Adoption) }

const Left = Type.Object({
  name: Text,
  origin,
  why: wordOf(['stronger', 'undeclared', 'used'] as const),
  by: Type.Optional(Text),
  before: Fields,
  after: Fields,
})

export const Plan = describes<ReturnType<typeof toPlanDocument>>()(
  Type.Object({
    origin,
    differs: Flag,
    ...Counts,
    ...Changes,
    left: Type.Array(Left),
    warnings: Type.Array(Text),
  }),
)

const Summary = describes<ApplySummary>()(
  Type.Object({ ...Counts, version: CountOrNull, conflicts: Type.Array(Text), kept: Type.Array(Text) }),
)
export const Applied = Type.Object({ origin, ...Summary.properties })

const Done = describes<Omit<Reverted, 'version'>>()(Type.Object({ ...Counts, ...Changes }))
export const CatalogReverted = Type.Object({
  reverted_to: Count,
  planned,
  ...Done.properties,
  version: Type.Optional(CountOrNull),
})

const Edit = describes<ReturnType<typeof toEditDocument>>()(
  Type.Object({ ...Counts, ...Changes, version: CountOrNull, differs: Flag }),
)
/** `left`: models whose prices are a file's or an administrator's, and differ. `unpriced`: slugs. `left_out`: facts that cannot be. */
export const RefreshedCatalog = Type.Object({
  ...{ planned, source: Text },
  ...Edit.properties,
  ...{ left: Type.Array(Left), unpriced: Type.Array(Text), left_out: Count },
})
export const EditedModel = Type.Object({ planned, ...Edit.properties, model: WholeModel })
export const EditedUpstream = Type.Object({ planned, ...Edit.properties, upstream: orNull(Upstream) })
/**
 * `unpriced`: slugs of models that are disabled for want of a price. `further`: those that were there, and get a further route.
 * `left_out`: how many do not chat.
 */
export const FoundModels = Type.Object({
  ...EditedUpstream.properties,
  ...{ unpriced: Type.Array(Text), further: Type.Array(Text), left_out: Count, notes: Type.Array(Text) },
})

export const Version = describes<ReturnType<typeof toVersionDocument>>()(
  Type.Object({
    ...{ number: Count, actor: Text, actor_name: TextOrNull, action: Text, subject: Text },
    ...{ created: Count, updated: Count, deleted: Count, adopted: Count, at_ms: Time },
  }),
)

export const ShownVersion = describes<ReturnType<typeof toShownVersionDocument>>()(
  Type.Object({
    ...Version.properties,
    changes: orNull(Type.Array(Change)),
    adoptions: orNull(Type.Array(Adoption)),
  }),
)

export const ExportedCatalog = Type.Object({
  yaml: Text,
  document: Fields,
  left_out: Type.Array(Type.Unknown()),
  sealed: Type.Array(Text),
})
