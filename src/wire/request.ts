/**
 * The chat request: the contract's sections 1 and 2 as one TypeBox schema, and the types derived from it. An
 * optional field may also be null, which means absent. Unknown top-level fields are allowed and travel on to
 * OpenAI-dialect upstreams. Rules across fields and messages are in `chat/validate.ts`.
 */
import { type Static, type TSchema, Type } from '@sinclair/typebox'

const optional = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))
const oneOf = <T extends string>(...values: T[]) => Type.Union(values.map((value) => Type.Literal(value)))
const text = (options?: { minLength?: number; maxLength?: number }) => Type.String(options)

const TextPart = Type.Object({ type: Type.Literal('text'), text: text() })
const RefusalPart = Type.Object({
  type: Type.Literal('refusal'),
  refusal: text(),
})
const ImagePart = Type.Object({
  type: Type.Literal('image_url'),
  image_url: Type.Object({
    url: text(),
    detail: optional(oneOf('auto', 'low', 'high')),
  }),
})
const AudioPart = Type.Object({
  type: Type.Literal('input_audio'),
  input_audio: Type.Object({ data: text(), format: oneOf('wav', 'mp3') }),
})
const FilePart = Type.Object({
  type: Type.Literal('file'),
  file: Type.Object({
    filename: optional(text()),
    file_data: optional(text()),
    file_id: optional(text()),
  }),
})

const textOr = <T extends TSchema[]>(...parts: [...T]) =>
  Type.Union([text(), Type.Array(Type.Union(parts), { minItems: 1 })])

const FunctionCall = Type.Object({ name: text(), arguments: text() })
const ToolCallSchema = Type.Union([
  Type.Object({
    id: text(),
    type: Type.Literal('function'),
    function: FunctionCall,
  }),
  Type.Object({
    id: text(),
    type: Type.Literal('custom'),
    custom: Type.Object({ name: text(), input: text() }),
  }),
])

export const MessageSchema = Type.Union([
  Type.Object({
    role: Type.Literal('user'),
    content: textOr(TextPart, ImagePart, AudioPart, FilePart),
    name: optional(text()),
  }),
  Type.Object({
    role: Type.Literal('system'),
    content: textOr(TextPart),
    name: optional(text()),
  }),
  Type.Object({
    role: Type.Literal('developer'),
    content: textOr(TextPart),
    name: optional(text()),
  }),
  Type.Object({
    role: Type.Literal('assistant'),
    content: optional(textOr(TextPart, RefusalPart)),
    refusal: optional(text()),
    name: optional(text()),
    audio: optional(Type.Object({ id: text() })),
    tool_calls: optional(Type.Array(ToolCallSchema, { maxItems: 128 })),
    function_call: optional(FunctionCall),
  }),
  Type.Object({
    role: Type.Literal('tool'),
    content: textOr(TextPart),
    tool_call_id: text(),
  }),
  Type.Object({
    role: Type.Literal('function'),
    content: Type.Union([text(), Type.Null()]),
    name: text(),
  }),
])

const JsonObject = Type.Record(Type.String(), Type.Unknown())
const FunctionTool = Type.Object({
  name: text(),
  description: optional(text()),
  parameters: optional(JsonObject),
  strict: optional(Type.Boolean()),
})
const CustomTool = Type.Object({
  name: text(),
  description: optional(text()),
  format: optional(
    Type.Union([
      Type.Object({ type: Type.Literal('text') }),
      Type.Object({
        type: Type.Literal('grammar'),
        grammar: Type.Object({
          definition: text(),
          syntax: oneOf('lark', 'regex'),
        }),
      }),
    ]),
  ),
})
export const ToolSchema = Type.Union([
  Type.Object({ type: Type.Literal('function'), function: FunctionTool }),
  Type.Object({ type: Type.Literal('custom'), custom: CustomTool }),
])

const Named = Type.Object({ name: text() })
const ToolChoice = Type.Union([
  oneOf('none', 'auto', 'required'),
  Type.Object({ type: Type.Literal('function'), function: Named }),
  Type.Object({ type: Type.Literal('custom'), custom: Named }),
  Type.Object({
    type: Type.Literal('allowed_tools'),
    allowed_tools: Type.Object({
      mode: oneOf('auto', 'required'),
      tools: Type.Array(JsonObject),
    }),
  }),
])

const ResponseFormat = Type.Union([
  Type.Object({ type: Type.Literal('text') }),
  Type.Object({ type: Type.Literal('json_object') }),
  Type.Object({
    type: Type.Literal('json_schema'),
    json_schema: Type.Object({
      name: text(),
      description: optional(text()),
      schema: optional(JsonObject),
      strict: optional(Type.Boolean()),
    }),
  }),
])

const Mode = Type.Object({ mode: oneOf('score', 'block') })
const UserLocation = Type.Object({
  type: Type.Literal('approximate'),
  approximate: Type.Object({
    country: optional(text()),
    region: optional(text()),
    city: optional(text()),
    timezone: optional(text()),
  }),
})

export const ChatRequestSchema = Type.Object({
  model: text({ minLength: 1 }),
  messages: Type.Array(MessageSchema, { minItems: 1 }),
  max_completion_tokens: optional(Type.Integer({ minimum: 1 })),
  max_tokens: optional(Type.Integer({ minimum: 1 })),
  temperature: optional(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: optional(Type.Number({ minimum: 0, maximum: 1 })),
  n: optional(Type.Integer({ minimum: 1, maximum: 128 })),
  stop: optional(Type.Union([text(), Type.Array(text(), { minItems: 1, maxItems: 4 })])),
  frequency_penalty: optional(Type.Number({ minimum: -2, maximum: 2 })),
  presence_penalty: optional(Type.Number({ minimum: -2, maximum: 2 })),
  logit_bias: optional(Type.Record(Type.String(), Type.Number({ minimum: -100, maximum: 100 }))),
  logprobs: optional(Type.Boolean()),
  top_logprobs: optional(Type.Integer({ minimum: 0, maximum: 20 })),
  seed: optional(Type.Integer()),
  stream: optional(Type.Boolean()),
  stream_options: optional(
    Type.Object({
      include_usage: optional(Type.Boolean()),
      include_obfuscation: optional(Type.Boolean()),
    }),
  ),
  tools: optional(Type.Array(ToolSchema, { maxItems: 128 })),
  tool_choice: optional(ToolChoice),
  parallel_tool_calls: optional(Type.Boolean()),
  functions: optional(
    Type.Array(
      Type.Object({
        name: text(),
        description: optional(text()),
        parameters: optional(JsonObject),
      }),
      {
        minItems: 1,
        maxItems: 128,
      },
    ),
  ),
  function_call: optional(Type.Union([oneOf('none', 'auto'), Named])),
  response_format: optional(ResponseFormat),
  reasoning_effort: optional(oneOf('none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max')),
  verbosity: optional(oneOf('low', 'medium', 'high')),
  modalities: optional(Type.Array(oneOf('text', 'audio'))),
  audio: optional(
    Type.Object({
      voice: Type.Union([text(), Type.Object({ id: text() })]),
      format: oneOf('wav', 'aac', 'mp3', 'flac', 'opus', 'pcm16'),
    }),
  ),
  prediction: optional(Type.Object({ type: Type.Literal('content'), content: textOr(TextPart) })),
  metadata: optional(
    Type.Record(Type.String({ pattern: '^[\\s\\S]{0,64}$' }), text({ maxLength: 512 }), {
      maxProperties: 16,
      additionalProperties: false,
    }),
  ),
  store: optional(Type.Boolean()),
  service_tier: optional(oneOf('auto', 'default', 'flex', 'scale', 'priority', 'fast')),
  safety_identifier: optional(text({ maxLength: 64 })),
  prompt_cache_key: optional(text()),
  prompt_cache_retention: optional(oneOf('in_memory', '24h')),
  prompt_cache_options: optional(
    Type.Object({
      ttl: optional(oneOf('30m')),
      mode: optional(oneOf('implicit', 'explicit')),
    }),
  ),
  user: optional(text()),
  moderation: optional(
    Type.Object({
      model: text(),
      policy: optional(Type.Object({ input: optional(Mode), output: optional(Mode) })),
    }),
  ),
  web_search_options: optional(
    Type.Object({
      user_location: optional(UserLocation),
      search_context_size: optional(oneOf('low', 'medium', 'high')),
    }),
  ),
})

export type ChatRequest = Static<typeof ChatRequestSchema>
export type Message = ChatRequest['messages'][number]
