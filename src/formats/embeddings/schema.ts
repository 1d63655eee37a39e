/**
 * The request of OpenAI's `POST /v1/embeddings` (platform.openai.com/docs/api-reference/embeddings/create). Other fields are forwarded to
 * OpenAI-format upstreams. Null means absent.
 */
import { type Static, type TSchema, Type } from '@sinclair/typebox'

const optional = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))
const some = { minItems: 1 }
/** OpenAI's limit. */
const many = { minItems: 1, maxItems: 2_048 }
const text = () => Type.String({ minLength: 1 })
const token = () => Type.Integer({ minimum: 0, maximum: 2 ** 31 })

export const EmbeddingSchema = Type.Object(
  {
    model: text(),
    input: Type.Union([
      text(),
      Type.Array(text(), many),
      Type.Array(token(), some),
      Type.Array(Type.Array(token(), some), many),
    ]),
    encoding_format: optional(Type.Union([Type.Literal('float'), Type.Literal('base64')])),
    dimensions: optional(Type.Integer({ minimum: 1, maximum: 65_536 })),
    user: optional(Type.String()),
  },
  { maxProperties: 256 },
)

export type EmbeddingBody = Static<typeof EmbeddingSchema>
