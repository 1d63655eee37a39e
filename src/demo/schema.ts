/**
 * Reads a JSON Schema for `value.ts`: what a reference means, what two schemas say together, which values a leaf accepts.
 * Pure; a schema is a client's, so nothing in it has to be of its type.
 */

export type Schema = Record<string, unknown>

export const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value)

export const propertiesOf = (plain: Schema): Schema => (isSchema(plain.properties) ? plain.properties : {})

export const requiredOf = (plain: Schema): string[] =>
  Array.isArray(plain.required) ? plain.required.filter((name) => typeof name === 'string') : []

/** Follows a reference, a JSON pointer in a URI fragment (RFC 6901, section 6); false, which accepts nothing, where it leads nowhere. */
export function pointTo(root: unknown, ref: string): unknown {
  if (!/^#(?:\/|$)/.test(ref)) return false
  const path = decodeURIComponent(ref).split('/').slice(1)
  return path.reduce<unknown>((at, part) => {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
    return typeof at === 'object' && at !== null && Object.hasOwn(at, name) ? Reflect.get(at, name) : false
  }, root)
}

/** Keywords that accept everything by themselves. */
const SILENT = new Set(['$defs', 'definitions', 'title', 'description', 'default', 'examples', '$schema', '$id'])

/** Joins two schemas that hold for the same value; null where they say what cannot be joined. */
export function merge(a: Schema, b: Schema): Schema | null {
  const telling = Object.keys(a).filter((name) => !SILENT.has(name))
  if (telling.length === 0) return b
  const both: Schema = { ...a, ...b }
  for (const name of telling) {
    const [one, other] = [a[name], b[name]]
    if (!(name in b) || Bun.deepEquals(one, other)) continue
    if (name === 'required') both.required = [...requiredOf(a), ...requiredOf(b)]
    else if (name === 'properties') both.properties = joinProperties(propertiesOf(a), propertiesOf(b))
    else if (isNumber(one) && isNumber(other) && name !== 'multipleOf')
      both[name] = /min/i.test(name) ? Math.max(one, other) : Math.min(one, other)
    else return null
  }
  return both
}

function joinProperties(a: Schema, b: Schema): Schema {
  const twice = Object.keys(a).filter((name) => Object.hasOwn(b, name))
  return { ...a, ...b, ...Object.fromEntries(twice.map((name) => [name, { allOf: [a[name], b[name]] }])) }
}

/** Returns the types that a schema allows, null last; where it names none, the one that its keywords are for. */
export function toTypes(plain: Schema): unknown[] {
  if (plain.type !== undefined) return [plain.type].flat().sort((a, b) => Number(a === 'null') - Number(b === 'null'))
  const has = (...names: string[]) => names.some((name) => name in plain)
  if (has('properties', 'required', 'additionalProperties')) return ['object']
  if (has('items', 'prefixItems', 'minItems')) return ['array']
  return has('minimum', 'maximum', 'multipleOf', 'exclusiveMinimum', 'exclusiveMaximum') ? ['number'] : ['string']
}

/** Says whether a value has the type, the bounds and the lengths that a schema asks for. Looks into no value. */
export function accepts(plain: Schema, value: unknown): boolean {
  const type = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value
  const types = plain.type === undefined ? [type] : [plain.type].flat()
  if (!types.includes(type) && !(types.includes('integer') && Number.isInteger(value))) return false
  if (typeof value === 'string') {
    const length = [...value].length
    return (
      !(isNumber(plain.minLength) && length < plain.minLength) &&
      !(isNumber(plain.maxLength) && length > plain.maxLength)
    )
  }
  if (typeof value !== 'number') return true
  if (!Number.isFinite(value)) return false
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = plain
  if (isNumber(minimum) && value < minimum) return false
  if (isNumber(maximum) && value > maximum) return false
  if (isNumber(exclusiveMinimum) && value <= exclusiveMinimum) return false
  if (isNumber(exclusiveMaximum) && value >= exclusiveMaximum) return false
  // The noise of binary fractions: 0.3 / 0.1 is not 3.
  return !isNumber(multipleOf) || Math.abs(value / multipleOf - Math.round(value / multipleOf)) <= 1e-9
}
