/** The request of OpenAI's `POST /v1/moderations` (platform.openai.com/docs/api-reference/moderations). Other fields are forwarded. */
import { type Static, type TSchema, Type } from '@sinclair/typebox'

const optional = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))
const some = { minItems: 1, maxItems: 2_048 }

const Part = Type.Union([
  Type.Object({ type: Type.Literal('text'), text: Type.String() }),
  Type.Object({ type: Type.Literal('image_url'), image_url: Type.Object({ url: Type.String({ minLength: 1 }) }) }),
])

export const ModerationsSchema = Type.Object(
  {
    /** Default, as at OpenAI: `omni-moderation-latest`. */
    model: optional(Type.String()),
    input: Type.Union([Type.String(), Type.Array(Type.String(), some), Type.Array(Part, some)]),
    /** For reports. Not forwarded. */
    user: optional(Type.String()),
  },
  { maxProperties: 256 },
)

export type ModerationsBody = Static<typeof ModerationsSchema>
