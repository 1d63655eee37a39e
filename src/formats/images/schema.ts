/**
 * The requests of OpenAI's `POST /v1/images/generations` and `/v1/images/edits` (platform.openai.com/docs/api-reference/images). Other
 * fields are forwarded.
 */
import { type Static, type TSchema, Type } from '@sinclair/typebox'

const optional = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))
const word = () => optional(Type.String({ minLength: 1, maxLength: 40 }))

const FIELDS = {
  model: Type.String({ minLength: 1 }),
  prompt: Type.String({ minLength: 1 }),
  n: optional(Type.Integer({ minimum: 1, maximum: 10 })),
  size: word(),
  quality: word(),
  /** Not sent to GPT image models, which return only base64. */
  response_format: optional(Type.Union([Type.Literal('url'), Type.Literal('b64_json')])),
  stream: optional(Type.Boolean()),
  partial_images: optional(Type.Integer({ minimum: 0, maximum: 3 })),
  /** For reports. Not forwarded in JSON. */
  user: optional(Type.String()),
}

export const MAX_INPUT_IMAGES = 16

const Input = Type.Object({ image_url: Type.String({ minLength: 1 }) })

export const ImagesSchema = Type.Object(FIELDS, { maxProperties: 256 })

export const EditsSchema = Type.Object(
  {
    ...FIELDS,
    /** Each a `data:` URL, or a URL that the upstream fetches. */
    images: Type.Array(Input, { minItems: 1, maxItems: MAX_INPUT_IMAGES }),
    mask: optional(Input),
  },
  { maxProperties: 256 },
)

export type ImagesBody = Static<typeof ImagesSchema>
export type EditsBody = Static<typeof EditsSchema>
