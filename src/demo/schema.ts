/**
 * Reads a JSON Schema for `demo-json.ts`: what a reference means, which types and branches there are, what two schemas
 * say together. Pure; a schema is a client's, so nothing in it has to be of its type.
 */

export type Schema = Record<string, unknown>

/** Thrown where no small value was found: the schema is recursive without an end, too large, or refers to nothing. */
export class NoInstance extends Error {}

export const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export function pointTo(root: unknown, ref: string): unknown {
  if (!ref.startsWith('#')) throw new NoInstance(`the schema refers to ${ref}, which is not in it`)
  const path = ref.slice(1).split('/').slice(1)
  return path.reduce<unknown>((at, part) => {
    const name = toName(part)
    if (name !== null && typeof at === 'object' && at !== null && Object.hasOwn(at, name)) return Reflect.get(at, name)
    throw new NoInstance(`the schema refers to ${ref}, which is not in it`)
  }, root)
}

/** Decodes one part of a JSON pointer in a URI fragment; null where its percent signs mean nothing. */
function toName(part: string): string | null {
  try {
    return decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')
  } catch {
    return null
  }
}

/** Keywords of which the narrower bound holds where two schemas do. */
const NARROWER: Record<string, (...bounds: number[]) => number> = {
  minimum: Math.max,
  exclusiveMinimum: Math.max,
  minLength: Math.max,
  minItems: Math.max,
  maximum: Math.min,
  exclusiveMaximum: Math.min,
  maxLength: Math.min,
  maxItems: Math.min,
}

/** Joins two schemas that hold for the same value. */
export function merge(a: Schema, b: Schema): Schema {
  const required = [...new Set([...requiredOf(a), ...requiredOf(b)])]
  const bounds = Object.entries(NARROWER).flatMap(([name, narrower]) => {
    const [one, other] = [a[name], b[name]]
    return typeof one === 'number' && typeof other === 'number' ? [[name, narrower(one, other)]] : []
  })
  return {
    ...a,
    ...b,
    ...Object.fromEntries(bounds),
    ...('properties' in a && 'properties' in b ? { properties: { ...propertiesOf(a), ...propertiesOf(b) } } : {}),
    ...(required.length > 0 ? { required } : {}),
  }
}

export function toBranches(plain: Schema): readonly unknown[] | null {
  const branches = plain.anyOf ?? plain.oneOf
  return Array.isArray(branches) && branches.length > 0 ? branches : null
}

/** The rest of a schema holds for each of its branches too. */
export function withBranch(plain: Schema, branch: unknown): unknown {
  const { anyOf: _any, oneOf: _one, ...beside } = plain
  const says = Object.keys(beside).some((name) => !SILENT.has(name))
  return says && isSchema(branch) ? { allOf: [beside, branch] } : branch
}

/** Keywords that accept everything by themselves. */
const SILENT = new Set(['$defs', 'definitions', 'title', 'description', 'default', 'examples', '$schema', '$id'])

export function toTypes(plain: Schema): readonly unknown[] {
  if (Array.isArray(plain.type)) return [...plain.type].sort((a, b) => Number(a === 'null') - Number(b === 'null'))
  if (plain.type !== undefined) return [plain.type]
  if ('properties' in plain || 'required' in plain || 'additionalProperties' in plain) return ['object']
  if ('items' in plain || 'prefixItems' in plain || 'minItems' in plain) return ['array']
  if (['minimum', 'maximum', 'multipleOf', 'exclusiveMinimum', 'exclusiveMaximum'].some((name) => name in plain))
    return ['number']
  return ['string']
}

export function itemsOf(plain: Schema, count: number): unknown[] {
  const fixed = Array.isArray(plain.prefixItems) ? plain.prefixItems : Array.isArray(plain.items) ? plain.items : []
  const rest = Array.isArray(plain.items) ? plain.additionalItems : plain.items
  return Array.from({ length: count }, (_, i) => (i < fixed.length ? fixed[i] : rest))
}

export const propertiesOf = (plain: Schema): Schema => (isSchema(plain.properties) ? plain.properties : {})

export const requiredOf = (plain: Schema): string[] =>
  Array.isArray(plain.required) ? plain.required.filter((name) => typeof name === 'string') : []

export function propertyOf(plain: Schema, name: string): unknown {
  const properties = propertiesOf(plain)
  return Object.hasOwn(properties, name) ? properties[name] : plain.additionalProperties || undefined
}

/** Sorts names as the known ones are, which is how a model writes them; others come last. */
export function inOrder(known: readonly string[], names: readonly string[]): string[] {
  const chosen = new Set(names)
  return [...new Set([...known.filter((name) => chosen.has(name)), ...names])]
}
