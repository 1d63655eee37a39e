/**
 * JSON Schemas in the part of that language which the API understands: what is left out is said in words in the description,
 * and checked by the gateway afterwards (`structured/plan.ts`). Pure.
 */
import { asList, asObject, type JsonObject } from '../../../domain/json.ts'
import { FORMATS, toHeld, UNDERSTOOD } from '../../../domain/schema-subset.ts'

/** The schema in those words; null where it cannot be said in them. */
export const toStrict = (schema: JsonObject): JsonObject | null => (toHeld(schema) === 'none' ? null : toClean(schema))

/** What says nothing of what is valid, and what is said anew. */
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
