/** Shapes of what the admin API takes. Bodies are checked as they are: a number is no text, and a field too many is a mistake. */
import { type SchemaOptions, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { t } from 'elysia'
import { PERIODS } from '../domain/limits.ts'

/** An object of these fields and no others. */
export const exactly = <Fields extends TProperties>(fields: Fields, options: SchemaOptions = {}) =>
  Type.Object(fields, { ...options, additionalProperties: false })

/** A field that may be left out, and null for none. */
export const orNone = <Schema extends TSchema>(schema: Schema, description: string) =>
  Type.Optional(Type.Union([schema, Type.Null()], { description }))

export const oneOf = <const Words extends readonly string[]>(words: Words, options: SchemaOptions = {}) =>
  Type.Unsafe<Words[number]>(
    Type.Union(
      words.map((word) => Type.Literal(word)),
      options,
    ),
  )

/** What the body of a key and of a team have in common; the services check the values. */
export const Shared = {
  scope: Type.Optional(
    oneOf(['all', 'local'] as const, { description: '`local`: only upstreams that cost no money.' }),
  ),
  models: Type.Optional(
    Type.Array(Type.String(), {
      description: 'Patterns over slugs such as `openai/*`; none: every model of the scope.',
    }),
  ),
  rpm: orNone(Type.Integer(), 'Requests a minute; null: any number.'),
  tpm: orNone(Type.Integer(), 'Tokens a minute; null: any number.'),
  concurrency: orNone(Type.Integer(), 'Requests under way at a time; null: any number.'),
  budget_nano_usd: orNone(
    Type.Integer(),
    'What it may cost in each period, in nano-dollars; null: no budget. Given together with the period.',
  ),
  budget_period: Type.Optional(oneOf(PERIODS, { description: 'When the budget begins anew (UTC); `total`: never.' })),
  metadata: orNone(
    Type.Record(Type.String(), Type.Union([Type.String(), Type.Null()])),
    'Notes by name; null for one takes it away, null for all of them all.',
  ),
}

/** The name of a key or a team. */
export const Name = Type.String({ description: 'What it is called: of those in force, no two are called the same.' })

/** Of a change that may only be told. A word that is none is refused: with a slip of the hand it would be made. */
export const PlanQuery = t.Object(
  { plan: t.Optional(t.Boolean({ description: 'True: nothing is changed, and what would be is told.' })) },
  { additionalProperties: false },
)
