/** The pieces that schemas of documents are made of, and the names that fields have as columns. */
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

/** Takes the schema of a document whose type is defined elsewhere. One that does not fit it does not compile. */
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

type Column<Field extends string, Before extends string = ''> = Field extends `${infer Letter}${infer Rest}`
  ? `${Before extends Uppercase<Before> ? '' : Letter extends Uppercase<Letter> ? '_' : ''}${Lowercase<Letter>}${Column<Rest, Letter>}`
  : ''

/** An object under its columns' names. */
export type Columns<Row> = { [Field in keyof Row & string as Column<Field>]: Row[Field] }

/** Such as `cache_write_1h_tokens` of `cacheWrite1hTokens`. */
export const toColumn = (field: string) => field.replace(/(?<=[a-z])(?=[A-Z0-9])/g, '_').toLowerCase()

export const toColumns = <Row extends object>(row: Row) =>
  Object.fromEntries(Object.entries(row).map(([field, value]) => [toColumn(field), value])) as Columns<Row>
