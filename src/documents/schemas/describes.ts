/**
 * Schemas that tell what documents look like: for whoever reads the API's description, and never on the way of an answer. One that
 * does not fit its document does not compile.
 */
import { type Static, type TSchema, Type } from '@sinclair/typebox'

/** The same without `readonly`, which JSON does not know. */
type Plain<Value> = Value extends object ? { -readonly [Field in keyof Value]: Plain<Value[Field]> } : Value

/** A complaint in place of nothing where a document does not fit the schema, or has other fields. */
type Fits<Document, Told> = [Plain<Document>] extends [Told]
  ? [keyof Told] extends [keyof Document]
    ? [keyof Document] extends [keyof Told]
      ? unknown
      : { lacks: Exclude<keyof Document, keyof Told> }
    : { hasTooMuch: Exclude<keyof Told, keyof Document> }
  : { doesNotFit: Document }

/** Takes the schema of a document. */
export const describes =
  <Document>() =>
  <Schema extends TSchema>(schema: Schema & Fits<Document, Static<Schema>>): Schema =>
    schema

export const orNull = <Schema extends TSchema>(schema: Schema) => Type.Union([schema, Type.Null()])

export const wordOf = <const Words extends readonly string[]>(words: Words) =>
  Type.Union(words.map((word) => Type.Literal(word as Words[number])))

export const Text = Type.String()
export const TextOrNull = orNull(Type.String())
export const Count = Type.Integer()
export const CountOrNull = orNull(Type.Integer())
export const Flag = Type.Boolean()
export const Money = Type.Integer({ description: 'Nano-dollars.' })
export const MoneyOrNull = orNull(Type.Integer({ description: 'Nano-dollars.' }))
export const Time = Type.Integer({ description: 'Milliseconds since 1970.' })
export const TimeOrNull = orNull(Type.Integer({ description: 'Milliseconds since 1970.' }))
export const Revision = Type.String({
  description: 'Of this state. An edit that sends it as `If-Match` is refused once the state is another one.',
})
/** Whatever it holds. */
export const Fields = Type.Record(Type.String(), Type.Unknown())
