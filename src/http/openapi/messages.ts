/** A message as descriptions of an API tell of it (OpenAPI 3.1). Its blocks are as Anthropic's reference describes them. */
import { Type } from '@sinclair/typebox'
import { Count, orNull, Text, wordOf } from '../../documents/schemas/describes.ts'
import { CountSchema, MessagesSchema } from '../../formats/messages/schema.ts'
import { MAX_BODY_BYTES } from '../../gateway/body.ts'
import { chatOperation } from './chat.ts'

const json = (schema: object) => ({ 'application/json': { schema } })

const Usage = Type.Object({
  input_tokens: Type.Integer({ description: 'But for those that were read from a cache, or written to one.' }),
  cache_read_input_tokens: Count,
  cache_creation_input_tokens: Count,
  cache_creation: Type.Object({ ephemeral_5m_input_tokens: Count, ephemeral_1h_input_tokens: Count }),
  output_tokens: Count,
  output_tokens_details: orNull(Type.Object({ thinking_tokens: Count })),
  server_tool_use: orNull(Type.Object({ web_search_requests: Count, web_fetch_requests: Count })),
  service_tier: wordOf(['standard', 'priority'] as const),
  cost_nano_usd: Type.Integer({ description: 'What the request cost, in nano-dollars.' }),
  cost: Type.Number({ description: 'The same in USD.' }),
})

const Message = Type.Object({
  id: Type.String({ description: '`msg_` and the id of the request on record.' }),
  type: Type.Literal('message'),
  role: Type.Literal('assistant'),
  model: Text,
  content: Type.Array(Type.Object({ type: wordOf(['text', 'thinking', 'redacted_thinking', 'tool_use'] as const) })),
  stop_reason: wordOf(['end_turn', 'max_tokens', 'tool_use', 'refusal'] as const),
  stop_sequence: Type.Null(),
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
