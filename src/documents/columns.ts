/** From names of fields to those of columns. Pure. */

type Column<Field extends string, Before extends string = ''> = Field extends `${infer Letter}${infer Rest}`
  ? `${Before extends Uppercase<Before> ? '' : Letter extends Uppercase<Letter> ? '_' : ''}${Lowercase<Letter>}${Column<Rest, Letter>}`
  : ''

/** An object under its columns' names. */
export type Columns<Row> = { [Field in keyof Row & string as Column<Field>]: Row[Field] }

/** Such as `cache_write_1h_tokens` of `cacheWrite1hTokens`. */
export const toColumn = (field: string) => field.replace(/(?<=[a-z])(?=[A-Z0-9])/g, '_').toLowerCase()

export const toColumns = <Row extends object>(row: Row) =>
  Object.fromEntries(Object.entries(row).map(([field, value]) => [toColumn(field), value])) as Columns<Row>
