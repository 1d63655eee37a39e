/** What an OpenAPI document says of values (JSON Schema), as far as ours use it, as lists of fields for people to read. Pure. */

export interface Schema {
  $ref?: string
  type?: string | readonly string[]
  const?: unknown
  enum?: readonly unknown[]
  anyOf?: readonly Schema[]
  items?: Schema
  properties?: Readonly<Record<string, Schema>>
  /** Objects whose fields have names of their own. */
  patternProperties?: Readonly<Record<string, Schema>>
  required?: readonly string[]
  description?: string
  default?: unknown
  format?: string
  pattern?: string
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
}

/** Those that have names, by these. */
export type Schemas = Readonly<Record<string, Schema>>

export interface Field {
  name: string
  /** Such as `list of strings or null`. */
  type: string
  isRequired: boolean
  /** All that it may be, where these are few. */
  words: readonly string[]
  /** Such as `at least 1`. */
  bounds: readonly string[]
  description: string | null
  /** What lies within; null where nothing does. */
  inside: Schema | null
}

/** One of the forms that an object may have. */
export interface Shape {
  /** What it is told from the others by; null where it is the only one. */
  title: string | null
  fields: readonly Field[]
}

/** The fields of an object, of those in a list, of each of several that it may be. None for a value that has no fields. */
export function toShapes(schema: Schema, schemas: Schemas): Shape[] {
  const objects = objectsIn(schema, schemas)
  return objects.map((one) => ({
    title: objects.length > 1 ? toTitle(one) : null,
    fields: Object.entries(one.properties ?? {}).map(([name, value]) =>
      toField(name, value, one.required?.includes(name) ?? false, schemas),
    ),
  }))
}

export function toField(name: string, schema: Schema, isRequired: boolean, schemas: Schemas): Field {
  const plain = plainIn(schema)
  return {
    ...{ name, isRequired, type: toType(schema) },
    words: [...new Set(plain.flatMap((one) => one.enum ?? []))].filter((word) => word !== null).map(String),
    bounds: [...new Set(plain.flatMap(toBounds))],
    description: schema.description ?? null,
    inside: objectsIn(schema, schemas).length > 0 ? schema : null,
  }
}

/** What it is in words. */
export function toType({ $ref, const: only, anyOf, type, items, patternProperties, properties }: Schema): string {
  if ($ref !== undefined) return nameOf($ref)
  if (only !== undefined) return JSON.stringify(only)
  if (anyOf) return [...new Set(anyOf.map(toType))].join(' or ')
  const byName = Object.values(patternProperties ?? {})[0]
  const words = [type ?? []].flat().map((one) => {
    if (one === 'array') return items ? `list of ${toMany(toType(items))}` : 'list'
    if (one === 'object' && byName && !properties) return `${toMany(toType(byName))} by name`
    return one
  })
  return words.length === 0 ? 'anything' : words.join(' or ')
}

function toMany(type: string): string {
  const many = type.replaceAll(/\b(string|integer|number|boolean|object)\b/g, '$1s')
  return many.includes(' ') ? `(${many})` : many
}

const nameOf = (ref: string) => ref.slice(ref.lastIndexOf('/') + 1)

export const resolve = (schema: Schema, schemas: Schemas): Schema =>
  schema.$ref === undefined ? schema : (schemas[nameOf(schema.$ref)] ?? {})

function objectsIn(schema: Schema, schemas: Schemas): Schema[] {
  const { properties, anyOf = [], items, patternProperties = {} } = resolve(schema, schemas)
  if (properties && Object.keys(properties).length > 0) return [resolve(schema, schemas)]
  return [...anyOf, ...(items ? [items] : []), ...Object.values(patternProperties)].flatMap((one) =>
    objectsIn(one, schemas),
  )
}

/** Its own bounds and words, those of what it may be, and of what a list holds. */
const plainIn = (schema: Schema): Schema[] => [
  schema,
  ...(schema.anyOf ?? []).flatMap(plainIn),
  ...(schema.items ? plainIn(schema.items) : []),
]

function toTitle({ properties = {}, required = [] }: Schema): string {
  const told = Object.entries(properties).find(([, { const: only }]) => only !== undefined)
  return told ? `${told[0]} ${JSON.stringify(told[1].const)}` : `with ${required.join(', ')}`
}

function toBounds(schema: Schema): string[] {
  const { format, pattern } = schema
  return [
    ...(schema.default === undefined ? [] : [`by default ${JSON.stringify(schema.default)}`]),
    ...toRange(schema.minimum, schema.maximum, ''),
    ...toRange(schema.minLength, schema.maxLength, 'character'),
    ...toRange(schema.minItems, schema.maxItems, 'item'),
    ...(format === undefined ? [] : [format]),
    ...(pattern === undefined ? [] : [`matches ${pattern}`]),
  ]
}

/** Bounds that no number in a script can leave say nothing. */
function toRange(least: number | undefined, most: number | undefined, unit: string): string[] {
  const [low, high] = [least, most].map((bound) => (Number.isSafeInteger(Math.trunc(bound ?? 0.5)) ? bound : undefined))
  const count = (bound: number) => (unit === '' ? String(bound) : `${bound} ${unit}${bound === 1 ? '' : 's'}`)
  if (low !== undefined && high !== undefined) return [`${low} to ${count(high)}`]
  if (low !== undefined) return [`at least ${count(low)}`]
  return high === undefined ? [] : [`at most ${count(high)}`]
}
