/**
 * Builds a small JSON value that a JSON Schema accepts, so that the demo model keeps its promise wherever a schema is
 * given. Pure. Covers what strict schemas may use (contract, section 4) and the usual rest; `not`, `if` and
 * `dependent…` are not looked at. A schema is a client's: its size, its recursion and its patterns are bounded here.
 */
import { toNumber, toText } from './demo-scalars.ts'

export type Schema = Record<string, unknown>

/** Thrown where no small value was found: the schema is recursive without an end, too large, or refers to nothing. */
export class NoInstance extends Error {}

const MAX_NODES = 10_000
const MAX_STEPS = 50_000
const MAX_DEPTH = 256
/** Below this depth only what is required is filled in, and the shortest branch is taken. */
const GENEROUS_DEPTH = 3

/** Converts a schema to a value that it accepts. Throws NoInstance. */
export function toInstance(schema: unknown): unknown {
  let nodes = 0
  let steps = 0
  const heights = new Map<object, number>()
  /** What `height` is in the middle of. */
  const open = new Set<unknown>()

  /** Follows `$ref` and folds `allOf` in, so that everything else sees one plain schema. */
  const resolve = (given: unknown): Schema | null => {
    steps += 1
    if (steps > MAX_STEPS) throw new NoInstance('the schema is too large or too deeply recursive')
    if (given === true || given === undefined) return {}
    if (!isSchema(given)) return null
    let plain: Schema = given
    if (typeof given.$ref === 'string') {
      const { $ref, ...beside } = given
      const target = resolve(pointTo(schema, $ref))
      if (!target) return null
      plain = Object.keys(beside).length === 0 ? target : merge(target, beside)
    }
    if (!Array.isArray(plain.allOf)) return plain
    const { allOf, ...beside } = plain
    return allOf.reduce<Schema | null>((sum, part) => {
      const next = resolve(part)
      return sum && next ? merge(sum, next) : null
    }, beside)
  }

  /** How many levels the shortest value has; infinite where there is none on this way. */
  const height = (given: unknown): number => {
    if (open.has(given) || open.size >= MAX_DEPTH) return Number.POSITIVE_INFINITY
    const known = isSchema(given) ? heights.get(given) : undefined
    if (known !== undefined) return known
    const plain = resolve(given)
    if (!plain) return Number.POSITIVE_INFINITY
    open.add(given)
    const found = heightOf(plain)
    open.delete(given)
    // An infinite height may only mean "by this way, through ourselves": remember certain ones alone.
    if (isSchema(given) && Number.isFinite(found)) heights.set(given, found)
    return found
  }

  const heightOf = (plain: Schema): number => {
    if ('const' in plain || Array.isArray(plain.enum)) return 0
    const branches = toBranches(plain)
    if (branches) return Math.min(...branches.map((branch) => height(withBranch(plain, branch))))
    const types = toTypes(plain)
    if (types.some((type) => type !== 'object' && type !== 'array')) return 0
    if (types.includes('array')) {
      const items = itemsOf(plain, toCount(plain.minItems))
      if (items.length === 0) return 0
      return 1 + Math.max(...new Set(items.map((item) => height(item))))
    }
    return 1 + Math.max(0, ...requiredOf(plain).map((name) => height(propertyOf(plain, name))))
  }

  const build = (given: unknown, depth: number, variant: number): unknown => {
    nodes += 1
    if (nodes > MAX_NODES) throw new NoInstance('the shortest value of the schema is too large')
    const plain = resolve(given)
    if (!plain) throw new NoInstance('the schema accepts nothing')
    if ('const' in plain) return plain.const
    if (Array.isArray(plain.enum)) return plain.enum[variant % plain.enum.length]
    const branches = toBranches(plain)
    if (branches) return build(withBranch(plain, pick(plain, branches, depth)), depth, variant)
    const types = toTypes(plain)
    const type = depth >= GENEROUS_DEPTH && types.includes('null') ? 'null' : types[0]
    if (type === 'object') return buildObject(plain, depth)
    if (type === 'array') return buildArray(plain, depth)
    if (type === 'null') return null
    if (type === 'boolean') return variant % 2 === 0
    if (type === 'integer' || type === 'number') return toNumber(plain, variant)
    return toText(plain, variant)
  }

  const pick = (plain: Schema, branches: readonly unknown[], depth: number): unknown => {
    const ranked = branches.map((branch) => ({ branch, rank: height(withBranch(plain, branch)) }))
    const possible = ranked.filter(({ rank }) => Number.isFinite(rank))
    const least = Math.min(...possible.map(({ rank }) => rank))
    const best = depth < GENEROUS_DEPTH ? possible[0] : possible.find(({ rank }) => rank === least)
    if (!best) throw new NoInstance('the schema is recursive without an end')
    return best.branch
  }

  const buildObject = (plain: Schema, depth: number): unknown => {
    const required = requiredOf(plain)
    const optional =
      depth < GENEROUS_DEPTH ? Object.keys(propertiesOf(plain)).filter((name) => !required.includes(name)) : []
    const most = typeof plain.maxProperties === 'number' ? plain.maxProperties : Number.POSITIVE_INFINITY
    const names = [...required, ...optional.filter((name) => Number.isFinite(height(propertyOf(plain, name))))].slice(
      0,
      Math.max(most, required.length),
    )
    for (let i = 1; names.length < toCount(plain.minProperties); i += 1) names.push(`extra_${i}`)
    return Object.fromEntries(names.map((name) => [name, build(propertyOf(plain, name), depth + 1, 0)]))
  }

  const buildArray = (plain: Schema, depth: number): unknown => {
    const least = toCount(plain.minItems)
    const most = typeof plain.maxItems === 'number' ? plain.maxItems : Number.POSITIVE_INFINITY
    const [first] = itemsOf(plain, 1)
    const shows = depth < GENEROUS_DEPTH && most > 0 && Number.isFinite(height(first))
    return itemsOf(plain, Math.max(least, shows ? 1 : 0)).map((item, i) => build(item, depth + 1, i))
  }

  try {
    return build(schema, 0, 0)
  } catch (reason) {
    // A schema nested deeper than our stack.
    if (reason instanceof RangeError) throw new NoInstance('the schema is too deeply recursive')
    throw reason
  }
}

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function pointTo(root: unknown, ref: string): unknown {
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

function merge(a: Schema, b: Schema): Schema {
  const required = [...new Set([...requiredOf(a), ...requiredOf(b)])]
  return {
    ...a,
    ...b,
    ...('properties' in a && 'properties' in b ? { properties: { ...propertiesOf(a), ...propertiesOf(b) } } : {}),
    ...(required.length > 0 ? { required } : {}),
  }
}

function toBranches(plain: Schema): readonly unknown[] | null {
  const branches = plain.anyOf ?? plain.oneOf
  return Array.isArray(branches) && branches.length > 0 ? branches : null
}

/** The rest of a schema holds for each of its branches too. */
function withBranch(plain: Schema, branch: unknown): unknown {
  const { anyOf: _any, oneOf: _one, ...beside } = plain
  const says = Object.keys(beside).some((name) => !SILENT.has(name))
  return says && isSchema(branch) ? { allOf: [beside, branch] } : branch
}

/** Keywords that accept everything by themselves. */
const SILENT = new Set(['$defs', 'definitions', 'title', 'description', 'default', 'examples', '$schema', '$id'])

function toTypes(plain: Schema): readonly unknown[] {
  if (Array.isArray(plain.type)) return [...plain.type].sort((a, b) => Number(a === 'null') - Number(b === 'null'))
  if (plain.type !== undefined) return [plain.type]
  if ('properties' in plain || 'required' in plain || 'additionalProperties' in plain) return ['object']
  if ('items' in plain || 'prefixItems' in plain || 'minItems' in plain) return ['array']
  if (['minimum', 'maximum', 'multipleOf', 'exclusiveMinimum', 'exclusiveMaximum'].some((name) => name in plain))
    return ['number']
  return ['string']
}

const toCount = (value: unknown): number => {
  const count = typeof value === 'number' ? value : 0
  if (count > MAX_NODES) throw new NoInstance('the shortest value of the schema is too large')
  return count
}

function itemsOf(plain: Schema, count: number): unknown[] {
  const fixed = Array.isArray(plain.prefixItems) ? plain.prefixItems : Array.isArray(plain.items) ? plain.items : []
  const rest = Array.isArray(plain.items) ? plain.additionalItems : plain.items
  return Array.from({ length: count }, (_, i) => (i < fixed.length ? fixed[i] : rest))
}

const propertiesOf = (plain: Schema): Schema => (isSchema(plain.properties) ? plain.properties : {})

const requiredOf = (plain: Schema): string[] =>
  Array.isArray(plain.required) ? plain.required.filter((name) => typeof name === 'string') : []

function propertyOf(plain: Schema, name: string): unknown {
  const properties = propertiesOf(plain)
  return Object.hasOwn(properties, name) ? properties[name] : plain.additionalProperties || undefined
}
