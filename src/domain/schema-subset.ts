/**
 * The part of JSON Schema that Anthropic's models are held to while they write (platform.claude.com, structured outputs; the
 * list of `@ai-sdk/anthropic`): what a schema says beyond it has to be checked afterwards, and some schemas cannot be said in
 * it at all. Objects there have the properties that are named and no others. Pure.
 */
import { asList, asObject, type JsonObject } from './json.ts'

/** Keywords that are understood. */
export const UNDERSTOOD: ReadonlySet<string> = new Set([
  ...['$ref', '$defs', 'definitions', 'type', 'enum', 'const', 'title', 'description', 'default'],
  ...['properties', 'required', 'items', 'anyOf', 'allOf', 'format', 'additionalProperties'],
])

/** Keywords that say nothing of what is valid. */
const SILENT: ReadonlySet<string> = new Set([
  '$schema',
  '$id',
  '$comment',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
])

export const FORMATS: ReadonlySet<unknown> = new Set([
  ...['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'uri', 'ipv4', 'ipv6', 'uuid'],
])

/** How much of a schema answers are held to. */
export type Held = 'all' | 'some' | 'none'

/** Schemas as they were asked about last: each call of a request asks for the same one. */
const known = new WeakMap<JsonObject, Held>()

/** Finds out how much of a schema can be said. */
export function toHeld(schema: JsonObject): Held {
  return known.getOrInsertComputed(schema, () => (isObjectSchema(schema) ? survey(schema, schema, []) : 'none'))
}

const isObjectSchema = ({ type, properties, $ref, anyOf }: JsonObject) =>
  type === 'object' || (type === undefined && Boolean(properties ?? $ref ?? anyOf))

/** @param within the references on the way here: a schema that leads back to itself cannot be said. */
function survey(value: unknown, root: JsonObject, within: readonly string[]): Held {
  const schema = asObject(value)
  if (!schema || within.length > 64) return 'none'
  if (typeof schema.$ref === 'string') return followed(schema.$ref, root, within)
  if (isOpen(schema)) return 'none'
  let held: Held = 'all'
  for (const name in schema) {
    if (SILENT.has(name) || isEmpty(name, schema[name])) continue
    if (!UNDERSTOOD.has(name) || (name === 'format' && !FORMATS.has(schema.format))) held = 'some'
  }
  const parts = [
    ...Object.values(asObject(schema.properties) ?? {}),
    ...asList(schema.anyOf),
    ...asList(schema.allOf),
    ...asList(schema.oneOf),
    ...(schema.items === undefined ? [] : [schema.items]),
  ]
  for (const part of parts) {
    const found = survey(part, root, within)
    if (found === 'none') return 'none'
    if (found === 'some') held = 'some'
  }
  return held
}

function followed(ref: string, root: JsonObject, within: readonly string[]): Held {
  if (within.includes(ref)) return 'none'
  const [, section, name] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(ref) ?? []
  const found = asObject(root[section ?? ''])?.[name ?? '']
  return found === undefined ? 'none' : survey(found, root, [...within, ref])
}

/** Whether it lets through what nobody has named: any value at all, or an object of any properties. */
function isOpen(schema: JsonObject): boolean {
  const { type, properties, anyOf, allOf, oneOf } = schema
  const types = Array.isArray(type) ? type : [type]
  if (types.includes('object') && properties === undefined) return true
  if (asList(schema.enum).some((each) => typeof each === 'object' && each !== null)) return true
  return [type, properties, anyOf, allOf, oneOf, schema.enum, schema.const].every((each) => each === undefined)
}

/** A bound that binds nothing. */
const isEmpty = (name: string, value: unknown) =>
  value === undefined ||
  ((name === 'minItems' || name === 'minLength') && value === 0) ||
  (name === 'uniqueItems' && !value)
