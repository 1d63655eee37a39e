/** From schemas as code has them to a description that others read: what has a name stands once, under it. Pure. */

type Json = Readonly<Record<string, unknown>>

/**
 * Makes a document whose schemas stand in `components`, wherever one of these is.
 *
 * @param named schemas by the names that they get.
 */
export function withComponents(document: Json, named: Readonly<Record<string, object>>): Json {
  const names = new Map(Object.entries(named).map(([name, schema]) => [schema, name]))
  const write = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(write)
    if (typeof value !== 'object' || value === null) return value
    const name = names.get(value)
    return name === undefined ? spread(value) : { $ref: `#/components/schemas/${name}` }
  }
  const spread = (value: object) =>
    toShort(Object.fromEntries(Object.entries(value).map(([field, held]) => [field, write(held)])))
  const schemas = Object.fromEntries(Object.entries(named).map(([name, schema]) => [name, spread(schema)]))
  const components = (document.components ?? {}) as Json
  return { ...spread(document), components: { ...components, schemas } }
}

/** One of several words, and a plain value or null, have shorter forms than alternatives. */
function toShort(schema: Json): Json {
  const { anyOf, ...rest } = schema
  if (!Array.isArray(anyOf)) return schema
  const others = anyOf.filter(({ type }: Json) => type !== 'null')
  const isNull = others.length < anyOf.length
  const [only] = others
  if (others.every((one: Json) => typeof one.const === 'string')) {
    const words = others.map((one: Json) => one.const)
    return { ...rest, type: isNull ? ['string', 'null'] : 'string', enum: isNull ? [...words, null] : words }
  }
  if (others.length > 1 || typeof only?.type !== 'string' || only.enum !== undefined) return schema
  return isNull ? { ...rest, ...only, type: [only.type, 'null'] } : { ...rest, ...only }
}
