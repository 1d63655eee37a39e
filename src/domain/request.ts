/**
 * The canonical request is OpenAI's chat request, so that little must be translated. `formats/chat` validates bodies against it. Null means absent; unknown
 * fields and parts are passed on, except those in `fields.ts`.
 */
import { type Static, type StringOptions, type TSchema, Type } from '@sinclair/typebox'
import type { EndpointRequest } from './endpoint-request.ts'
import { PART_TYPES, type UNREQUESTED_REASONING } from './task.ts'
import type { MOST_UNITS, UnitCounts } from './units.ts'

/** null means absent. */
const optional = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))

const oneOf = <T extends string>(...values: T[]) => Type.Union(values.map((value) => Type.Literal(value)))

const text = (options?: StringOptions) => Type.String(options)

/** Accepts further fields without validation. */
const beyond =
  <More extends object>() =>
  <T extends TSchema>(schema: T) =>
    schema as T & { static: More }

/** Anthropic's prompt cache breakpoint. */
export type CacheMarked = { cache_control?: unknown }
const marked = beyond<CacheMarked>()

const textOr = <T extends TSchema[]>(...parts: [...T]) =>
  Type.Union([text(), Type.Array(Type.Union(parts), { minItems: 1 })])

/** Upstreams with lower limits (OpenAI: 128 tools, 4 stop sequences) report them themselves. */
const MAX_TOOLS = 1_024
const MAX_STOPS = 256

/** By OpenAI's rules. */
const Name = text({ maxLength: 64, pattern: '^[a-zA-Z0-9_-]+$' })

const JsonObject = Type.Record(Type.String(), Type.Unknown())

const breakpoint = { prompt_cache_breakpoint: optional(Type.Object({ mode: oneOf('explicit') })) }

const TextPart = marked(Type.Object({ type: Type.Literal('text'), text: text(), ...breakpoint }))
/** `url` may be a `data:` URL. */
const ImagePart = marked(
  Type.Object({
    type: Type.Literal('image_url'),
    image_url: Type.Object({ url: text(), detail: optional(oneOf('auto', 'low', 'high', 'original')) }),
    ...breakpoint,
  }),
)
/** Base64. */
const AudioPart = marked(
  Type.Object({
    type: Type.Literal('input_audio'),
    input_audio: Type.Object({ data: text(), format: oneOf('wav', 'mp3') }),
    ...breakpoint,
  }),
)
const FilePart = marked(
  Type.Object({
    type: Type.Literal('file'),
    file: Type.Object({ filename: optional(text()), file_data: optional(text()), file_id: optional(text()) }),
    ...breakpoint,
  }),
)
const RefusalPart = marked(Type.Object({ type: Type.Literal('refusal'), refusal: text() }))

/** Unknown types, such as `video_url`, go to the upstream. Declared as an impossible type, so that known ones can be narrowed. */
export interface OtherPart extends CacheMarked {
  type: '(other)'
}
const OtherPart = Type.Unsafe<OtherPart>(
  Type.Object({ type: Type.String({ pattern: `^(?!(?:${[...PART_TYPES].join('|')})$)[\\w.:/-]{1,64}$` }) }),
)

const FunctionCall = Type.Object({ name: text(), arguments: text() })
/** From an earlier response. */
const called = beyond<{ extra_content?: unknown }>()
const ToolCall = Type.Union([
  called(Type.Object({ id: text(), type: Type.Literal('function'), function: FunctionCall })),
  called(
    Type.Object({ id: text(), type: Type.Literal('custom'), custom: Type.Object({ name: text(), input: text() }) }),
  ),
])

const UserMessage = marked(
  Type.Object({
    role: Type.Literal('user'),
    content: textOr(TextPart, ImagePart, AudioPart, FilePart, OtherPart),
    name: optional(text()),
  }),
)
/** `developer` is the system role of reasoning models. */
const instructions = <Role extends string>(role: Role) =>
  marked(Type.Object({ role: Type.Literal(role), content: textOr(TextPart, OtherPart), name: optional(text()) }))
/** Sent back by OpenRouter's clients. */
type DrawnImages = { images?: unknown }
const AssistantMessage = beyond<CacheMarked & DrawnImages>()(
  Type.Object({
    role: Type.Literal('assistant'),
    content: optional(textOr(TextPart, RefusalPart, OtherPart)),
    refusal: optional(text()),
    name: optional(text()),
    audio: optional(Type.Object({ id: text() })),
    tool_calls: optional(Type.Array(ToolCall, { maxItems: MAX_TOOLS })),
    function_call: optional(FunctionCall),
    // From responses; the first two are the same text.
    reasoning: optional(text()),
    reasoning_content: optional(text()),
    reasoning_details: optional(Type.Array(Type.Unknown())),
    annotations: optional(Type.Array(Type.Unknown())),
  }),
)
const ToolMessage = beyond<CacheMarked & { is_error?: unknown }>()(
  Type.Object({
    role: Type.Literal('tool'),
    // OpenAI accepts only text. Tools also return screenshots and charts.
    content: textOr(TextPart, ImagePart, OtherPart),
    tool_call_id: text(),
  }),
)
const FunctionMessage = marked(
  Type.Object({
    role: Type.Literal('function'),
    content: Type.Union([text(), Type.Null()]),
    name: text(),
  }),
)
const Message = Type.Union([
  UserMessage,
  instructions('system'),
  instructions('developer'),
  AssistantMessage,
  ToolMessage,
  FunctionMessage,
])

const LegacyFunction = marked(
  Type.Object({ name: Name, description: optional(text()), parameters: optional(JsonObject) }),
)
const FunctionTool = marked(Type.Object({ ...LegacyFunction.properties, strict: optional(Type.Boolean()) }))
const Grammar = Type.Object({ definition: text(), syntax: oneOf('lark', 'regex') })
const CustomTool = marked(
  Type.Object({
    name: Name,
    description: optional(text()),
    format: optional(
      Type.Union([
        Type.Object({ type: Type.Literal('text') }),
        Type.Object({ type: Type.Literal('grammar'), grammar: Grammar }),
      ]),
    ),
  }),
)
const Tool = Type.Union([
  marked(Type.Object({ type: Type.Literal('function'), function: FunctionTool })),
  marked(Type.Object({ type: Type.Literal('custom'), custom: CustomTool })),
])

const Named = Type.Object({ name: text() })
const ToolChoice = Type.Union([
  oneOf('none', 'auto', 'required'),
  Type.Object({ type: Type.Literal('function'), function: Named }),
  Type.Object({ type: Type.Literal('custom'), custom: Named }),
  Type.Object({
    type: Type.Literal('allowed_tools'),
    allowed_tools: Type.Object({ mode: oneOf('auto', 'required'), tools: Type.Array(JsonObject) }),
  }),
])

const JsonSchemaFormat = Type.Object({
  name: Name,
  description: optional(text()),
  schema: optional(JsonObject),
  strict: optional(Type.Boolean()),
})
const ResponseFormat = Type.Union([
  Type.Object({ type: Type.Literal('text') }),
  Type.Object({ type: Type.Literal('json_object') }),
  Type.Object({ type: Type.Literal('json_schema'), json_schema: JsonSchemaFormat }),
])

const Mode = Type.Object({ mode: oneOf('score', 'block') })
const Moderation = Type.Object({
  model: text(),
  policy: optional(Type.Object({ input: optional(Mode), output: optional(Mode) })),
})

const Place = {
  country: optional(text()),
  region: optional(text()),
  city: optional(text()),
  timezone: optional(text()),
}
const UserLocation = Type.Object({ type: Type.Literal('approximate'), approximate: Type.Object(Place) })

const penalty = optional(Type.Number({ minimum: -2, maximum: 2 }))

/** Far more than clients send. */
const MAX_FIELDS = 256

export const RequestSchema = Type.Object(
  {
    model: text({ minLength: 1 }),
    messages: Type.Array(Message, { minItems: 1 }),
    // Same meaning, in tokens.
    max_completion_tokens: optional(Type.Integer({ minimum: 1 })),
    max_tokens: optional(Type.Integer({ minimum: 1 })),
    temperature: optional(Type.Number({ minimum: 0, maximum: 2 })),
    top_p: optional(Type.Number({ minimum: 0, maximum: 1 })),
    n: optional(Type.Integer({ minimum: 1, maximum: 128 })),
    stop: optional(Type.Union([text(), Type.Array(text(), { minItems: 1, maxItems: MAX_STOPS })])),
    frequency_penalty: penalty,
    presence_penalty: penalty,
    // By token number.
    logit_bias: optional(Type.Record(Type.String(), Type.Number({ minimum: -100, maximum: 100 }))),
    logprobs: optional(Type.Boolean()),
    top_logprobs: optional(Type.Integer({ minimum: 0, maximum: 20 })),
    seed: optional(Type.Integer({ minimum: -(2 ** 63), maximum: 2 ** 63 })),
    stream: optional(Type.Boolean()),
    stream_options: optional(
      Type.Object({ include_usage: optional(Type.Boolean()), include_obfuscation: optional(Type.Boolean()) }),
    ),
    tools: optional(Type.Array(Tool, { maxItems: MAX_TOOLS })),
    tool_choice: optional(ToolChoice),
    parallel_tool_calls: optional(Type.Boolean()),
    // Legacy.
    functions: optional(Type.Array(LegacyFunction, { minItems: 1, maxItems: MAX_TOOLS })),
    function_call: optional(Type.Union([oneOf('none', 'auto'), Named])),
    response_format: optional(ResponseFormat),
    reasoning_effort: optional(oneOf('none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max')),
    verbosity: optional(oneOf('low', 'medium', 'high')),
    // `image` is not OpenAI's.
    modalities: optional(Type.Array(oneOf('text', 'audio', 'image'))),
    audio: optional(
      Type.Object({
        voice: Type.Union([text(), Type.Object({ id: text() })]),
        format: oneOf('wav', 'aac', 'mp3', 'flac', 'opus', 'pcm16'),
      }),
    ),
    prediction: optional(Type.Object({ type: Type.Literal('content'), content: textOr(TextPart) })),
    // Upstreams other than OpenAI take objects and numbers.
    metadata: optional(JsonObject),
    store: optional(Type.Boolean()),
    service_tier: optional(oneOf('auto', 'default', 'flex', 'scale', 'priority', 'fast')),
    safety_identifier: optional(text({ maxLength: 64 })),
    prompt_cache_key: optional(text()),
    prompt_cache_retention: optional(oneOf('in_memory', '24h')),
    prompt_cache_options: optional(
      Type.Object({ ttl: optional(oneOf('30m')), mode: optional(oneOf('implicit', 'explicit')) }),
    ),
    user: optional(text()),
    moderation: optional(Moderation),
    web_search_options: optional(
      Type.Object({
        user_location: optional(UserLocation),
        search_context_size: optional(oneOf('low', 'medium', 'high')),
      }),
    ),
  },
  { maxProperties: MAX_FIELDS },
)

/** Not in OpenAI's reference, and not validated: dialects check what they read. */
export type BeyondReference = CacheMarked & {
  /** OpenRouter's and Anthropic's, read by `toReasoningRequest`. */
  reasoning?: unknown
  thinking?: unknown
  top_k?: unknown
  min_p?: unknown
  /** Gemini's. */
  safety_settings?: unknown
  cached_content?: unknown
}

export type CanonicalRequest = Static<typeof RequestSchema> &
  BeyondReference & {
    readonly [UNREQUESTED_REASONING]?: true
    readonly [MOST_UNITS]?: UnitCounts
  }
export type AnyRequest = CanonicalRequest | (EndpointRequest & NothingElse)
type NothingElse = {
  readonly [Name in Exclude<keyof CanonicalRequest, keyof EndpointRequest | 'messages' | 'user'>]?: undefined
}
export type Message = Static<typeof Message>
export type AssistantMessage = Static<typeof AssistantMessage>
export type JsonSchemaFormat = Static<typeof JsonSchemaFormat>
export type ToolChoice = Static<typeof ToolChoice>
