/** A message as descriptions of an API tell of it (OpenAPI 3.1). Its blocks are as Anthropic's reference describes them. */
import { Type } from '@sinclair/typebox'
import { Count, orNull, Text, TextOrNull } from '../../documents/fields.ts'
import { CountSchema, MessagesSchema } from '../../formats/messages/schema.ts'
import { MAX_BODY_BYTES } from '../../gateway/read.ts'
import { chatOperation } from './chat.ts'
import { Costs } from './schemas.ts'

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

const {
  200: answered,
  503: unavailable,
  ...refused
} = chatOperation.responses as Record<number, { description: string }>

const errors = Object.fromEntries(
  Object.entries({
    401: { description: 'There is no key, or none in force.' },
    403: { description: 'The key may not be used from there.' },
    ...refused,
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
