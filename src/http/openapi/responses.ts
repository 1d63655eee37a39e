/** A response as descriptions of an API tell of it (OpenAPI 3.1). Its output is as OpenAI's reference describes it. */
import { Type } from '@sinclair/typebox'
import { Count, orNull, Text, TextOrNull } from '../../documents/fields.ts'
import { ResponsesSchema } from '../../formats/responses/schema.ts'
import { MAX_BODY_BYTES } from '../../gateway/read.ts'
import { chatOperation } from './chat.ts'
import { Costs } from './schemas.ts'

const Usage = Type.Object({
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
  usage: Type.Optional(orNull(Usage)),
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
