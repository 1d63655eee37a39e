/**
 * Google's `Schema` as JSON Schema (ai.google.dev/api/caching#Schema): types are in upper case, `nullable` is a flag, and counts may be
 * text.
 */
import { asList, asObject, type JsonObject } from '../../domain/json.ts'

const COUNTS: ReadonlySet<string> = new Set(
  'minItems maxItems minLength maxLength minProperties maxProperties'.split(' '),
)

/** Not in JSON Schema. */
const DROPPED: ReadonlySet<string> = new Set(['nullable', 'propertyOrdering', 'property_ordering'])

export function toJsonSchema(schema: JsonObject): JsonObject {
  const made: [string, unknown][] = []
  for (const [given, value] of Object.entries(schema)) {
    const name = given === 'any_of' ? 'anyOf' : given.replace(/^(min|max)_([a-z])/, (_, a, b) => a + b.toUpperCase())
    if (value === null || DROPPED.has(name)) continue
    made.push([name, toKeyword(name, value)])
  }
  const json = Object.fromEntries(made)
  return schema.nullable === true ? toNullable(json) : json
}

function toKeyword(name: string, value: unknown): unknown {
  if (name === 'type' && typeof value === 'string') return value.toLowerCase()
  if (COUNTS.has(name)) return Number(value)
  if (name === 'items' || name === 'additionalProperties') return toInner(value)
  if (name === 'anyOf' || name === 'prefixItems') return asList(value).map(toInner)
  const properties = name === 'properties' || name === '$defs' || name === 'defs' ? asObject(value) : null
  return properties
    ? Object.fromEntries(Object.entries(properties).map(([each, inner]) => [each, toInner(inner)]))
    : value
}

function toInner(value: unknown): unknown {
  const inner = asObject(value)
  return inner ? toJsonSchema(inner) : value
}

function toNullable(json: JsonObject): JsonObject {
  const { type, enum: values, anyOf } = json
  if (Array.isArray(anyOf)) return { ...json, anyOf: [...anyOf, { type: 'null' }] }
  return {
    ...json,
    ...(typeof type === 'string' ? { type: [type, 'null'] } : {}),
    ...(Array.isArray(values) ? { enum: [...values, null] } : {}),
  }
}
