/** What the descriptions of the APIs (OpenAPI 3.1) say of each endpoint for models: its request, its answers, its errors. */

import { Type } from '@sinclair/typebox'
import { Count, orNull, Text, TextOrNull } from '../../documents/fields.ts'
import { RequestSchema } from '../../domain/request.ts'
import { EmbeddingSchema } from '../../formats/embeddings/schema.ts'
import { CountSchema, MessagesSchema } from '../../formats/messages/schema.ts'
import { ResponsesSchema } from '../../formats/responses/schema.ts'
import { MAX_BODY_BYTES } from '../../gateway/read.ts'
import { ApiError, ChatCompletion, Costs } from './schemas.ts'

const text = { schema: { type: 'string' } }

/** Of every answer of this API that is an error. */
export const toErrors = (statuses: Readonly<Record<number, string>>) =>
  Object.fromEntries(
    Object.entries(statuses).map(([status, description]) => [
      status,
      { description, content: { 'application/json': { schema: ApiError } } },
    ]),
  )

export const chatOperation = {
  requestBody: {
    required: true,
    description: `JSON of at most ${MAX_BODY_BYTES / 1024 ** 2} MiB, as OpenAI's API takes it. Null is taken for absent; fields that are not named here travel on to the model's provider.`,
    content: { 'application/json': { schema: RequestSchema } },
  },
  responses: {
    200: {
      description:
        'The answer: whole, or with `stream: true` as server-sent events, each `data:` with a ChatCompletionChunk, `[DONE]` last, comments as keep-alives. A failure after the first word is one last event with an `error`.',
      headers: {
        'x-request-id': { description: 'The id of the request on record.', ...text },
        'x-tollgate-upstream': { description: 'Who has answered.', ...text },
        'x-tollgate-attempts': { description: 'How many calls it took until then.', schema: { type: 'integer' } },
        'x-tollgate-lane': {
          description:
            'Whether the upstream speaks the format itself and its answer passes (`native`) or is written anew (`translated`).',
          schema: { type: 'string', enum: ['native', 'translated'] },
        },
        'x-tollgate-output-cap': {
          description:
            'The output cap, in tokens for each choice, that was sent because a budget had no room for all that the model writes. Absent otherwise.',
          schema: { type: 'integer' },
        },
      },
      content: { 'application/json': { schema: ChatCompletion }, 'text/event-stream': text },
    },
    ...toErrors({
      400: 'Something is wrong with the request: `param` names the field. A prompt too long is `context_length_exceeded`.',
      404: 'There is no such model, or it is not for this key: `model_not_found`.',
      408: 'The body took too long on its way.',
      413: 'The body is too large.',
      429: 'A rate limit, a budget (`insufficient_quota`), or a share of the server is used up: see `retry-after`.',
      500: 'A fault of the server: its log has the cause under `x-request-id`.',
      502: 'The provider has failed, or did not meet the schema.',
      503: 'The model is not ready, the server is overloaded or is stopping: try again.',
      504: 'The provider took too long.',
      508: 'An upstream leads back to a Tollgate server that the request has passed.',
    }),
  },
}

const Texts = Type.Array(Type.String())
const Tokens = Type.Array(Type.Integer())

const CompletionRequest = Type.Object({
  model: Type.String({ description: 'A model whose upstream takes completions as they are.' }),
  prompt: Type.Union([Type.String(), Texts, Tokens, Type.Array(Tokens)]),
  suffix: Type.Optional(Type.String({ description: 'What stands behind the gap that is to be filled.' })),
  max_tokens: Type.Optional(Type.Integer()),
  n: Type.Optional(Type.Integer()),
  stream: Type.Optional(Type.Boolean()),
})

const { 200: answered, ...refused } = chatOperation.responses
const { headers } = answered

export const completionOperation = {
  requestBody: {
    required: true,
    description: `JSON of at most ${MAX_BODY_BYTES / 1024 ** 2} MiB. It goes on as it came: fields that are not named here, too.`,
    content: { 'application/json': { schema: CompletionRequest } },
  },
  responses: {
    200: {
      description:
        'The answer as the upstream wrote it: whole, or with `stream: true` as server-sent events. A failure after the first word is one last event with an `error`.',
      headers,
      content: {
        'application/json': { schema: Type.Object({ id: Type.String(), model: Type.String() }) },
        'text/event-stream': { schema: { type: 'string' } },
      },
    },
    ...refused,
  },
}

const Position = Type.Integer({ minimum: 0 })

export const EmbeddingList = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(
    Type.Object({
      object: Type.Literal('embedding'),
      index: Position,
      embedding: Type.Union([
        Type.Array(Type.Number()),
        Type.String({ description: 'The base64 of little-endian 32-bit floats.' }),
      ]),
    }),
  ),
  model: Type.String(),
  usage: Type.Object({
    prompt_tokens: Position,
    total_tokens: Position,
    cost_nano_usd: Type.Integer({ description: 'What it cost, in nano-dollars.' }),
    cost: Type.Number({ description: 'The same in USD.' }),
  }),
})

export const embeddingOperation = {
  requestBody: {
    required: true,
    description: `JSON of at most ${MAX_BODY_BYTES / 1024 ** 2} MiB. Fields that are not named here travel on to the model's provider, where that speaks this format.`,
    content: { 'application/json': { schema: EmbeddingSchema } },
  },
  responses: {
    200: {
      description: 'A vector for each input, in their order.',
      headers: answered.headers,
      content: { 'application/json': { schema: EmbeddingList } },
    },
    ...refused,
  },
}

const json = (schema: object) => ({ 'application/json': { schema } })

/** Of an answer that is passed as its upstream wrote it, little is certain. */
const Usage = Type.Object({
  input_tokens: Type.Integer({ description: 'But for those that were read from a cache, or written to one.' }),
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

const Message = Type.Object({
  id: Type.String({ description: '`msg_` and the id of the request on record.' }),
  type: Type.Literal('message'),
  role: Type.Literal('assistant'),
  model: Text,
  content: Type.Array(
    Type.Object({
      type: Type.String({
        description:
          '`text`, `thinking`, `redacted_thinking` or `tool_use`; others in an answer that is passed as its upstream wrote it.',
      }),
    }),
  ),
  stop_reason: Type.String({
    description:
      '`end_turn`, `max_tokens`, `tool_use` or `refusal`; others in an answer that is passed as its upstream wrote it.',
  }),
  stop_sequence: Type.Optional(TextOrNull),
  usage: Usage,
})

const MessagesError = Type.Object({
  type: Type.Literal('error'),
  error: Type.Object({ type: Text, message: Text }),
  request_id: Text,
})

const { 200: _, 503: unavailable, ...others } = chatOperation.responses as Record<number, { description: string }>

const errors = Object.fromEntries(
  Object.entries({
    401: { description: 'There is no key, or none in force.' },
    403: { description: 'The key may not be used from there.' },
    ...others,
    400: {
      description:
        'Something is wrong with the request: the message begins with the field, or is `prompt is too long: …`.',
    },
    404: { description: 'There is no such model, or it is not for this key.' },
    529: unavailable ?? { description: '' },
  }).map(([status, { description }]) => [status, { description, content: json(MessagesError) }]),
)

const toBody = (schema: object) => ({
  required: true,
  description: `JSON of at most ${MAX_BODY_BYTES / 1024 ** 2} MiB, as Anthropic's API takes it. What is not named here is left out: fields, blocks, and tools that only their provider could run.`,
  content: json(schema),
})

export const messagesOperation = {
  requestBody: toBody(MessagesSchema),
  responses: {
    200: {
      ...answered,
      description:
        'The answer: whole, or with `stream: true` as the events of this API, from `message_start` to `message_stop`; pings as keep-alives, comments before the first event. A failure after that is one last event `error`.',
      content: { ...json(Message), 'text/event-stream': { schema: { type: 'string' } } },
    },
    ...errors,
  },
}

export const countOperation = {
  requestBody: toBody(CountSchema),
  responses: {
    200: {
      description:
        'How many tokens the request has, as far as that is known without asking the provider. It costs nothing.',
      content: json(Type.Object({ input_tokens: Count })),
    },
    ...errors,
  },
}

const ResponseUsage = Type.Object({
  input_tokens: Count,
  input_tokens_details: Type.Optional(Type.Object({ cached_tokens: Count, cache_write_tokens: Type.Optional(Count) })),
  output_tokens: Count,
  output_tokens_details: Type.Optional(Type.Object({ reasoning_tokens: Count })),
  total_tokens: Count,
  ...Costs,
})

const Response = Type.Object({
  id: Type.String({ description: '`resp_` and the id of the request on record.' }),
  object: Type.Literal('response'),
  created_at: Count,
  completed_at: Type.Optional(orNull(Count)),
  status: Type.Union(['completed', 'incomplete', 'failed', 'in_progress'].map((word) => Type.Literal(word))),
  incomplete_details: Type.Optional(orNull(Type.Object({ reason: Text }))),
  error: Type.Optional(orNull(Type.Object({ code: Text, message: Text }))),
  model: Text,
  output: Type.Array(Type.Object({ type: Text, id: Type.Optional(TextOrNull) }), {
    description:
      'Items: `message`, `reasoning`, `function_call`, `custom_tool_call`, `local_shell_call`, `image_generation_call`; others in an answer that is passed as its upstream wrote it.',
  }),
  store: Type.Optional(orNull(Type.Boolean())),
  usage: Type.Optional(orNull(ResponseUsage)),
})

const { input, ...fields } = ResponsesSchema.properties
const CountRequest = Type.Object({ ...fields, input: Type.Optional(input) })

const { responses } = chatOperation

export const responsesOperation = {
  requestBody: {
    required: true,
    description: `JSON of at most ${MAX_BODY_BYTES / 1024 ** 2} MiB, as OpenAI's API takes it. What is not named here is left out: fields, items, and tools that only their provider could run. Nothing is kept: \`previous_response_id\`, \`conversation\`, \`prompt\` and \`background\` are refused.`,
    content: { 'application/json': { schema: ResponsesSchema } },
  },
  responses: {
    ...responses,
    200: {
      ...responses[200],
      description:
        'The answer, with what its request asked for besides: whole, or with `stream: true` as the events of this API, numbered, the last one `response.completed`, `response.incomplete` or `response.failed`; comments as keep-alives.',
      content: { 'application/json': { schema: Response }, 'text/event-stream': { schema: { type: 'string' } } },
    },
  },
}

export const inputTokensOperation = {
  requestBody: { ...responsesOperation.requestBody, content: { 'application/json': { schema: CountRequest } } },
  responses: {
    ...responses,
    200: {
      description:
        'How many tokens the request has, as far as that is known without asking the provider. It costs nothing.',
      content: {
        'application/json': {
          schema: Type.Object({ object: Type.Literal('response.input_tokens'), input_tokens: Count }),
        },
      },
    },
  },
}
