/** Embeddings as the description of the API tells of them (OpenAPI 3.1). */
import { Type } from '@sinclair/typebox'
import { EmbeddingSchema } from '../../formats/embeddings/schema.ts'
import { MAX_BODY_BYTES } from '../../gateway/read.ts'
import { chatOperation } from './chat.ts'

const Count = Type.Integer({ minimum: 0 })

export const EmbeddingList = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(
    Type.Object({
      object: Type.Literal('embedding'),
      index: Count,
      embedding: Type.Union([
        Type.Array(Type.Number()),
        Type.String({ description: 'The base64 of little-endian 32-bit floats.' }),
      ]),
    }),
  ),
  model: Type.String(),
  usage: Type.Object({
    prompt_tokens: Count,
    total_tokens: Count,
    cost_nano_usd: Type.Integer({ description: 'What it cost, in nano-dollars.' }),
    cost: Type.Number({ description: 'The same in USD.' }),
  }),
})

const { 200: answered, ...refused } = chatOperation.responses

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
