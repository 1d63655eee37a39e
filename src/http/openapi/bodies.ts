/** OpenAPI schemas of requests and responses that no other code has, since no schema checks them. */

import { Type } from '@sinclair/typebox'
import { Count, orNull, Text, TextOrNull } from '../../documents/fields.ts'
import { EditsSchema } from '../../formats/images/schema.ts'
import { Costs } from './schemas.ts'

export const AudioForm = Type.Object({
  file: Type.String({ contentMediaType: 'application/octet-stream', description: 'The audio, with a file name.' }),
  model: Type.String(),
  language: Type.Optional(Type.String()),
  prompt: Type.Optional(Type.String()),
  response_format: Type.Optional(Type.String({ description: '`json`, `text`, `srt`, `verbose_json`, or `vtt`.' })),
  temperature: Type.Optional(Type.Number()),
})

const Picture = Type.String({ contentMediaType: 'application/octet-stream', description: 'With a file name.' })
const { images: _, mask: __, ...editFields } = EditsSchema.properties
export const EditsForm = Type.Object({
  ...editFields,
  image: Type.Union([Picture, Type.Array(Picture)], {
    description: 'A file, or up to sixteen in parts named `image` or `image[]`.',
  }),
  mask: Type.Optional(Picture),
})

const Tokens = Type.Array(Type.Integer())
export const CompletionRequest = Type.Object({
  model: Type.String({ description: 'A model whose upstream supports legacy completions.' }),
  prompt: Type.Union([Type.String(), Type.Array(Type.String()), Tokens, Type.Array(Tokens)]),
  suffix: Type.Optional(Type.String({ description: 'Text after the gap to fill.' })),
  max_tokens: Type.Optional(Type.Integer()),
  n: Type.Optional(Type.Integer()),
  stream: Type.Optional(Type.Boolean()),
})

const Position = Type.Integer({ minimum: 0 })
const COSTS = {
  cost_nano_usd: Type.Integer({ description: 'Cost in nano-dollars.' }),
  cost: Type.Number({ description: 'Cost in USD.' }),
}
export const RankedList = Type.Object({
  id: Text,
  model: Text,
  results: Type.Array(
    Type.Object({
      index: Position,
      relevance_score: Type.Number(),
      document: Type.Optional(Type.Object({ text: Text }, { description: 'With `return_documents`.' })),
    }),
  ),
  meta: Type.Object({
    billed_units: Type.Object({ search_units: Type.Optional(Position), input_tokens: Type.Optional(Position) }),
    tokens: Type.Object({ input_tokens: Position, output_tokens: Position }),
  }),
  usage: Type.Object({ prompt_tokens: Position, total_tokens: Position, search_units: Position, ...COSTS }),
})
export const ModerationList = Type.Object({
  id: Text,
  model: Text,
  results: Type.Array(
    Type.Object({
      flagged: Type.Boolean({ description: 'Any category, if the provider does not say.' }),
      categories: Type.Record(Text, Type.Boolean()),
      category_scores: Type.Record(Text, Type.Number()),
      category_applied_input_types: Type.Optional(Type.Record(Text, Type.Array(Text))),
    }),
  ),
  usage: Type.Object({ prompt_tokens: Position, total_tokens: Position, ...COSTS }),
})
export const ImageList = Type.Object({
  created: Count,
  data: Type.Array(
    Type.Object({
      url: Type.Optional(Text),
      b64_json: Type.Optional(Text),
      revised_prompt: Type.Optional(Text),
    }),
  ),
  size: Type.Optional(Text),
  quality: Type.Optional(Text),
  background: Type.Optional(Text),
  output_format: Type.Optional(Text),
  usage: Type.Object({
    ...{ input_tokens: Position, output_tokens: Position, total_tokens: Position, images: Position },
    input_tokens_details: Type.Object({ text_tokens: Position, image_tokens: Position }),
    output_tokens_details: Type.Object({ text_tokens: Position, image_tokens: Position }),
    ...COSTS,
  }),
})
export const EmbeddingList = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(
    Type.Object({
      object: Type.Literal('embedding'),
      index: Position,
      embedding: Type.Union([
        Type.Array(Type.Number()),
        Type.String({ description: 'Base64 of little-endian 32-bit floats.' }),
      ]),
    }),
  ),
  model: Type.String(),
  usage: Type.Object({ prompt_tokens: Position, total_tokens: Position, ...COSTS }),
})

/** Passed-through responses may lack most fields. */
const MessagesUsage = Type.Object({
  input_tokens: Type.Integer({ description: 'Excludes tokens read from or written to a cache.' }),
  cache_read_input_tokens: Type.Optional(orNull(Count)),
  cache_creation_input_tokens: Type.Optional(orNull(Count)),
  cache_creation: Type.Optional(
    orNull(Type.Object({ ephemeral_5m_input_tokens: Count, ephemeral_1h_input_tokens: Count })),
  ),
  output_tokens: Count,
  output_tokens_details: Type.Optional(orNull(Type.Object({ thinking_tokens: Count }))),
  server_tool_use: Type.Optional(
    orNull(Type.Object({ web_search_requests: Count, web_fetch_requests: Type.Optional(Count) })),
  ),
  service_tier: Type.Optional(orNull(Text)),
  ...Costs,
})

export const Message = Type.Object({
  id: Type.String({ description: '`msg_` and the request ID.' }),
  type: Type.Literal('message'),
  role: Type.Literal('assistant'),
  model: Text,
  content: Type.Array(
    Type.Object({
      type: Type.String({
        description:
          '`text`, `thinking`, `redacted_thinking` or `tool_use`; others if passed through from the upstream.',
      }),
    }),
  ),
  stop_reason: Type.String({
    description: '`end_turn`, `max_tokens`, `tool_use` or `refusal`; others if passed through from the upstream.',
  }),
  stop_sequence: Type.Optional(TextOrNull),
  usage: MessagesUsage,
})

const ResponseUsage = Type.Object({
  input_tokens: Count,
  input_tokens_details: Type.Optional(Type.Object({ cached_tokens: Count, cache_write_tokens: Type.Optional(Count) })),
  output_tokens: Count,
  output_tokens_details: Type.Optional(Type.Object({ reasoning_tokens: Count })),
  total_tokens: Count,
  ...Costs,
})

export const Response = Type.Object({
  id: Type.String({ description: '`resp_` and the request ID.' }),
  object: Type.Literal('response'),
  created_at: Count,
  completed_at: Type.Optional(orNull(Count)),
  status: Type.Union(['completed', 'incomplete', 'failed', 'in_progress'].map((word) => Type.Literal(word))),
  incomplete_details: Type.Optional(orNull(Type.Object({ reason: Text }))),
  error: Type.Optional(orNull(Type.Object({ code: Text, message: Text }))),
  model: Text,
  output: Type.Array(Type.Object({ type: Text, id: Type.Optional(TextOrNull) }), {
    description:
      'Items: `message`, `reasoning`, `function_call`, `custom_tool_call`, `local_shell_call`, `image_generation_call`; others if passed through from the upstream.',
  }),
  store: Type.Optional(orNull(Type.Boolean())),
  usage: Type.Optional(orNull(ResponseUsage)),
})

export const MODEL_IN_PATH = {
  ...{ name: 'model', in: 'path', required: true, schema: { type: 'string' } },
  description: 'Model ID such as `openai/gpt-5`, with its slash as is or escaped, or an alias.',
}

export const GeminiResponse = Type.Object({
  candidates: Type.Array(
    Type.Object({
      content: Type.Object({ role: Text, parts: Type.Array(Type.Object({ text: Type.Optional(Text) })) }),
      finishReason: Text,
      index: Count,
    }),
  ),
  usageMetadata: Type.Object({ promptTokenCount: Count, candidatesTokenCount: Count, totalTokenCount: Count }),
  modelVersion: Text,
  responseId: Text,
})
