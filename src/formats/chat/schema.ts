/** The few words in which `message.ts` and `request.ts` write their TypeBox schemas. */
import { type StringOptions, type TSchema, Type } from '@sinclair/typebox'

/** A field that may be left out; null means the same. */
export const optional = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))

export const oneOf = <T extends string>(...values: T[]) => Type.Union(values.map((value) => Type.Literal(value)))

export const text = (options?: StringOptions) => Type.String(options)

export const textOr = <T extends TSchema[]>(...parts: [...T]) =>
  Type.Union([text(), Type.Array(Type.Union(parts), { minItems: 1 })])

/** What tools, functions and schemas may be called, as OpenAI's API has it. */
export const Name = text({ maxLength: 64, pattern: '^[a-zA-Z0-9_-]+$' })

/** Any object: a client's own JSON Schema, for example. */
export const JsonObject = Type.Record(Type.String(), Type.Unknown())
