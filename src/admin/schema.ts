/** Shapes of what the admin API takes. Bodies are checked as they are: a number is no text, and a field too many is a mistake. */
import { Kind, type SchemaOptions, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { t } from 'elysia'
import { byHand } from '../catalog/fields.ts'
import { toAlternatives } from '../domain/explain.ts'

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

/** Of a change that may only be told. A word that is none is refused: with a slip of the hand it would be made. */
export const PlanQuery = t.Object(
  { plan: t.Optional(t.Boolean({ description: 'True: nothing is changed, and what would be is told.' })) },
  { additionalProperties: false },
)

/** Of a change: what is left out stays, and null takes back. */
export type OrNull<Fields> = { [Name in keyof Fields]?: Fields[Name] | null }

/**
 * The fields of an entry of the catalog that are set by hand, as bodies have them. What is in a list is checked by whoever changes the
 * entry, who says where in it something is wrong.
 */
export const toHandFields = (of: { properties: TProperties }): TProperties =>
  Object.fromEntries(
    byHand(of).map(([field, shape, none]) => {
      const plain: TSchema = shape[Kind] === 'Array' ? { ...shape, items: toPlain(shape.items) } : shape
      const { description, ...undescribed } = plain
      return [
        field,
        none === null ? Type.Optional(plain) : orNone(undescribed as TSchema, `${description} null: ${none}.`),
      ]
    }),
  )

/** TypeBox does not check the words of a text: they are for the API description. */
const toPlain = (item: TSchema) =>
  item[Kind] === 'Object'
    ? Type.Record(Type.String(), Type.Unknown())
    : Type.String({ enum: toAlternatives(item).map((word) => word.const) })
