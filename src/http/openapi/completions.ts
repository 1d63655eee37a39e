/** A legacy completion as the description of the API tells of it (OpenAPI 3.1). */
import { Type } from '@sinclair/typebox'
import { MAX_BODY_BYTES } from '../../gateway/read.ts'
import { chatOperation } from './chat.ts'

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
