/**
 * The request of OpenAI's `POST /v1/audio/speech` (platform.openai.com/docs/api-reference/audio/createSpeech). Providers have more voices,
 * formats, and longer texts, so those aren't checked. Other fields are forwarded. Null means absent.
 */
import { type Static, type TSchema, Type } from '@sinclair/typebox'

const optional = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))

export const SpeechSchema = Type.Object(
  {
    model: Type.String({ minLength: 1 }),
    input: Type.String({ minLength: 1, maxLength: 100_000 }),
    voice: optional(Type.Union([Type.String(), Type.Object({ id: Type.String() })])),
    instructions: optional(Type.String({ maxLength: 100_000 })),
    response_format: optional(Type.String({ pattern: '^[a-zA-Z0-9_-]{1,32}$' })),
    speed: optional(Type.Number({ minimum: 0.25, maximum: 4 })),
    stream_format: optional(Type.Union([Type.Literal('audio'), Type.Literal('sse')])),
    /** For reports. Not forwarded. */
    user: optional(Type.String()),
  },
  { maxProperties: 256 },
)

export type SpeechBody = Static<typeof SpeechSchema>
