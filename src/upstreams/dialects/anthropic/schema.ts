/**
 * Converts JSON Schemas to the subset that Anthropic enforces (platform.claude.com, structured outputs; the list of `@ai-sdk/anthropic`):
 * the rest goes into descriptions, and some schemas can't be converted.
 */
import { asList, asObject, type JsonObject } from '../../../domain/json.ts'

export const UNDERSTOOD: ReadonlySet<string> = new Set([
  ...['$ref', '$defs', 'definitions', 'type', 'enum', 'const', 'title', 'description', 'default'],
  ...['properties', 'required', 'items', 'anyOf', 'allOf', 'format', 'additionalProperties'],
])

/** Keywords that don't constrain values. */
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

export type Held = 'all' | 'some' | 'none'

/** Cached, since each call of a request asks for the same schema. */
const known = new WeakMap<JsonObject, Held>()

export function toHeld(schema: JsonObject): Held {
  return known.getOrInsertComputed(schema, () =>
    isObjectSchema(schema) ? survey(schema, { root: schema, followed: new Map() }) : 'none',
  )
}

const isObjectSchema = ({ type, properties, $ref, anyOf }: JsonObject) =>
  type === 'object' || (type === undefined && Boolean(properties ?? $ref ?? anyOf))

interface Survey {
  root: JsonObject
  /** Results by reference; null while in progress, which marks recursion, since that isn't supported. */
  followed: Map<string, Held | null>
}

function survey(value: unknown, all: Survey): Held {
  const schema = asObject(value)
  if (!schema || isDivided(schema)) return 'none'
  if (typeof schema.$ref === 'string') return follow(schema.$ref, all)
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
    const found = survey(part, all)
    if (found === 'none') return 'none'
    if (found === 'some') held = 'some'
  }
  return held
}

function follow(ref: string, all: Survey): Held {
  const before = all.followed.get(ref)
  if (before !== undefined) return before ?? 'none'
  const [, section, name] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(ref) ?? []
  const found = asObject(all.root[section ?? ''])?.[name ?? '']
  all.followed.set(ref, null)
  const held = found === undefined ? 'none' : survey(found, all)
  all.followed.set(ref, held)
  return held
}

/** True if it allows unnamed content: any value, or an object with any properties. */
function isOpen(schema: JsonObject): boolean {
  const { type, properties, anyOf, allOf, oneOf } = schema
  const types = Array.isArray(type) ? type : [type]
  if (types.includes('object') && properties === undefined) return true
  if (asList(schema.enum).some((each) => typeof each === 'object' && each !== null)) return true
  return [type, properties, anyOf, allOf, oneOf, schema.enum, schema.const].every((each) => each === undefined)
}

/**
 * True if a value must match several objects or lists at once: closed objects would exclude each other's properties. The API allows no
 * reference within `allOf`.
 */
function isDivided(schema: JsonObject): boolean {
  const parts = asList(schema.allOf)
  const held = parts.filter((part) => HOLDERS.some((name) => asObject(part)?.[name] !== undefined)).length
  if (held + HOLDERS.filter((name) => name !== 'allOf' && schema[name] !== undefined).length > 1) return true
  return parts.length > 1 && parts.some((part) => asObject(part)?.$ref !== undefined)
}

const HOLDERS = ['properties', 'items', '$ref', 'anyOf', 'oneOf', 'allOf']

const isEmpty = (name: string, value: unknown) =>
  value === undefined ||
  ((name === 'minItems' || name === 'minLength') && value === 0) ||
  (name === 'uniqueItems' && !value)

export const toStrict = (schema: JsonObject): JsonObject | null => (toHeld(schema) === 'none' ? null : toClean(schema))

/** Keywords without effect, or set below. */
const UNSAID: ReadonlySet<string> = new Set(['$schema', '$id', '$comment', 'additionalProperties'])

function toClean({ allOf, ...given }: JsonObject): JsonObject {
  const ref = asObject(asList(allOf)[0])?.$ref
  const schema = ref === undefined ? { ...given, allOf } : { ...given, $ref: ref }
  const clean: JsonObject = {}
  const left: string[] = []
  for (const [name, value] of Object.entries(schema)) {
    if (value === undefined || UNSAID.has(name)) continue
    if (name === 'format' && !FORMATS.has(value)) left.push(`format: ${JSON.stringify(value)}`)
    else if (UNDERSTOOD.has(name)) clean[name] = toCleanPart(name, value)
    else if (name === 'oneOf') clean.anyOf = asList(value).map(toCleanEach)
    else left.push(`${name}: ${JSON.stringify(value)}`)
  }
  if (clean.type === 'object' || clean.properties !== undefined) {
    clean.type ??= 'object'
    clean.additionalProperties = false
  }
  if (left.length === 0) return clean
  const before = typeof clean.description === 'string' ? `${clean.description}\n` : ''
  return { ...clean, description: `${before}{${left.join(', ')}}` }
}

const toCleanEach = (value: unknown): unknown => {
  const schema = asObject(value)
  return schema ? toClean(schema) : value
}

function toCleanPart(name: string, value: unknown): unknown {
  switch (name) {
    case 'properties':
    case '$defs':
    case 'definitions':
      return Object.fromEntries(Object.entries(asObject(value) ?? {}).map(([key, each]) => [key, toCleanEach(each)]))
    case 'anyOf':
    case 'allOf':
      return asList(value).map(toCleanEach)
    case 'items':
      return toCleanEach(value)
    default:
      return value
  }
}
