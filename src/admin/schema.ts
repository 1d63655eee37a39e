/** Request schemas of the admin API; unknown fields and type coercion are not allowed. */
import { Kind, type SchemaOptions, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { t } from 'elysia'
import { byHand } from '../catalog/fields.ts'
import { toAlternatives } from '../domain/explain.ts'

/** An object without other fields. */
export const exactly = <Fields extends TProperties>(fields: Fields, options: SchemaOptions = {}) =>
  Type.Object(fields, { ...options, additionalProperties: false })

/** An optional field; null: none. */
export const orNone = <Schema extends TSchema>(schema: Schema, description: string) =>
  Type.Optional(Type.Union([schema, Type.Null()], { description }))

export const oneOf = <const Words extends readonly string[]>(words: Words, options: SchemaOptions = {}) =>
  Type.Unsafe<Words[number]>(
    Type.Union(
      words.map((word) => Type.Literal(word)),
      options,
    ),
  )

export const DRY_RUN = 'Dry run: return the changes without applying them.'

/** Rejects other words than booleans, so that a typo doesn't apply the change. */
export const PlanQuery = t.Object(
  { plan: t.Optional(t.Boolean({ description: DRY_RUN })) },
  { additionalProperties: false },
)

/** Absent fields keep their value; null resets. */
export type OrNull<Fields> = { [Name in keyof Fields]?: Fields[Name] | null }

/** Catalog fields that can be set manually. List items are validated later, with an error that names the position. */
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

/** TypeBox ignores `enum` of strings; it is for the API description. */
const toPlain = (item: TSchema) =>
  item[Kind] === 'Object'
    ? Type.Record(Type.String(), Type.Unknown())
    : Type.String({ enum: toAlternatives(item).map((word) => word.const) })
