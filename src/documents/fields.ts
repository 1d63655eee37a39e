/** Building blocks of document schemas, and conversion to snake_case fields. */
import { type Static, type TSchema, Type } from '@sinclair/typebox'

/** Without `readonly`. */
type Plain<Value> = Value extends object ? { -readonly [Field in keyof Value]: Plain<Value[Field]> } : Value

/** A type error if a document doesn't match the schema exactly. */
type Fits<Document, Told> = [Plain<Document>] extends [Told]
  ? [keyof Told] extends [keyof Document]
    ? [keyof Document] extends [keyof Told]
      ? unknown
      : { lacks: Exclude<keyof Document, keyof Told> }
    : { hasTooMuch: Exclude<keyof Told, keyof Document> }
  : { doesNotFit: Document }

/** A schema that must match a document type defined elsewhere, or it does not compile. */
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
  description: 'Revision of this state. An edit that sends it as `If-Match` fails if the state has changed.',
})
export const Fields = Type.Record(Type.String(), Type.Unknown())

type Column<Field extends string, Before extends string = ''> = Field extends `${infer Letter}${infer Rest}`
  ? `${Before extends Uppercase<Before> ? '' : Letter extends Uppercase<Letter> ? '_' : ''}${Lowercase<Letter>}${Column<Rest, Letter>}`
  : ''

/** An object with snake_case fields. */
export type Columns<Row> = { [Field in keyof Row & string as Column<Field>]: Row[Field] }

/** `cacheWrite1hTokens` to `cache_write_1h_tokens`. */
export const toColumn = (field: string) => field.replace(/(?<=[a-z])(?=[A-Z0-9])/g, '_').toLowerCase()

export const toColumns = <Row extends object>(row: Row) =>
  Object.fromEntries(Object.entries(row).map(([field, value]) => [toColumn(field), value])) as Columns<Row>
