/** The request of OpenAI's `POST /v1/images/generations` (platform.openai.com/docs/api-reference/images). Other fields are forwarded. */
import { type Static, type TSchema, Type } from '@sinclair/typebox'

const optional = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))
const word = () => optional(Type.String({ minLength: 1, maxLength: 40 }))

export const ImagesSchema = Type.Object(
  {
    model: Type.String({ minLength: 1 }),
    prompt: Type.String({ minLength: 1 }),
    n: optional(Type.Integer({ minimum: 1, maximum: 10 })),
    size: word(),
    quality: word(),
    /** Not sent to GPT image models, which return only base64. */
    response_format: optional(Type.Union([Type.Literal('url'), Type.Literal('b64_json')])),
    stream: optional(Type.Boolean()),
    /** For reports; not sent on. */
    user: optional(Type.String()),
  },
  { maxProperties: 256 },
)

export type ImagesBody = Static<typeof ImagesSchema>
