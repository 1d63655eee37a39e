/** What is told of models, their routes and prices, to administrators and to clients. */
import { Type } from '@sinclair/typebox'
import type { PublicModel as WirePublicModel } from '../../catalog/public.ts'
import { SERVER_STATES } from '../../domain/model-server.ts'
import { FEATURES, MODALITIES } from '../../domain/models.ts'
import type { PricingItem } from '../../domain/usage.ts'
import type { PriceOfModel, ShownModel, ShownRoute, toAliasDocuments, toShownModel } from '../model.ts'
import { Count, describes, Flag, orNull, Revision, Text, TextOrNull, Time, wordOf } from './describes.ts'
import { SERVED } from './upstreams.ts'

const price = Type.Optional(Type.String({ description: 'USD, a decimal.' }))

/** Of tokens, each in USD; `request` of a call, `web_search` of a search, `second` of compute. */
export const Pricing = describes<PricingItem>()(
  Type.Object({
    prompt: Type.String({ description: 'USD per token, a decimal.' }),
    completion: Type.String({ description: 'USD per token, a decimal.' }),
    ...{ input_cache_read: price, input_cache_write: price, input_cache_write_1h: price, internal_reasoning: price },
    ...{ audio: price, audio_completion: price, image_token: price, image_token_completion: price },
    ...{ image: price, request: price, web_search: price },
    second: Type.Optional(
      Type.String({ description: 'USD per second of compute, a decimal: of a server of your own.' }),
    ),
    mode: Type.Optional(Type.String({ description: 'It holds for calls that their upstream says it served so.' })),
    min_prompt_tokens: Type.Optional(Type.Integer({ description: 'It holds for longer prompts than this.' })),
  }),
)

const is_ready = orNull(Type.Boolean())

export const Route = describes<ShownRoute>()(
  Type.Object({
    revision: Revision,
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
    served: orNull(Type.Object({ state: orNull(wordOf(SERVER_STATES)), ...SERVED })),
  }),
)

export const ListedModel = describes<ShownModel>()(
  Type.Object({
    slug: Text,
    revision: Revision,
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
    lifecycle: Type.Literal('active'),
    ...{ deprecated_at: Type.Null(), retires_at: Type.Null(), line: Type.Null(), capabilities: Type.Null() },
    allowed_fallback_models: Type.Null(),
    quantization: Type.Optional(
      Type.String({ description: 'How the weights are kept that its server has, where that says it: a local one.' }),
    ),
    size_bytes: Type.Optional(Type.Integer({ description: 'Of the file of those weights, where its server says it.' })),
    is_ready: Type.Boolean({ description: 'Whether it can be called now.' }),
    state: Type.Optional(
      Type.Union(
        SERVER_STATES.map((state) => Type.Literal(state)),
        { description: 'How its server stands, where that is started here: a request starts one that is stopped.' },
      ),
    ),
    tokens_per_second: Type.Optional(
      orNull(
        Type.Number({
          description: 'How fast a local server has written an answer of late; null before any was measured.',
        }),
      ),
    ),
  }),
)
