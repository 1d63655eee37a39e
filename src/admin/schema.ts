/** Shapes of what the admin API takes. Bodies are checked as they are: a number is no text, and a field too many is a mistake. */
import { type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { t } from 'elysia'
import { PERIODS } from '../domain/limits.ts'

/** An object of these fields and no others. */
export const exactly = <Fields extends TProperties>(fields: Fields) =>
  Type.Object(fields, { additionalProperties: false })

/** A field that may be left out, and null for none. */
export const orNone = <Schema extends TSchema>(schema: Schema) => Type.Optional(Type.Union([schema, Type.Null()]))

export const oneOf = <const Words extends readonly string[]>(words: Words) =>
  Type.Unsafe<Words[number]>(Type.Union(words.map((word) => Type.Literal(word))))

/** What the body of a key and of a team have in common; the services check the values. */
export const Shared = {
  scope: Type.Optional(oneOf(['all', 'local'] as const)),
  models: Type.Optional(Type.Array(Type.String())),
  rpm: orNone(Type.Integer()),
  tpm: orNone(Type.Integer()),
  concurrency: orNone(Type.Integer()),
  /** With its period, or null for none. */
  budget_nano_usd: orNone(Type.Integer()),
  budget_period: Type.Optional(oneOf(PERIODS)),
  metadata: orNone(Type.Record(Type.String(), Type.Union([Type.String(), Type.Null()]))),
}

/** Of a change that may only be told. A word that is none is refused: with a slip of the hand it would be made. */
export const PlanQuery = t.Object({ plan: t.Optional(t.Boolean()) }, { additionalProperties: false })
