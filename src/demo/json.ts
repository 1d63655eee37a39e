/**
 * Builds a small JSON value that a JSON Schema accepts, so that the demo model keeps its promise wherever a schema is
 * given. Pure. Covers what strict schemas may use (contract, section 4) and the usual rest; `not`, `if` and
 * `dependent…` are not looked at. A schema is a client's: its size, its recursion and its patterns are bounded here.
 */
import { fitsLeaf, toNumber, toText } from './scalars.ts'
import {
  inOrder,
  isSchema,
  itemsOf,
  merge,
  NoInstance,
  pointTo,
  propertiesOf,
  propertyOf,
  requiredOf,
  type Schema,
  toBranches,
  toTypes,
  withBranch,
} from './schema.ts'

const MAX_NODES = 10_000
/** So many characters, written or of a pattern, are as good as a value: a short schema may ask for a long text often. */
const CHARS_A_NODE = 100
const MAX_STEPS = 50_000
const MAX_DEPTH = 256
/** Below this depth only what is required is filled in, and the shortest branch is taken. */
const GENEROUS_DEPTH = 3
/** How much of a schema is quoted to the client that sent it. */
const MAX_QUOTED = 200

/**
 * Converts a schema to a value that it accepts. Throws NoInstance. Where a leaf's keywords are beyond this file (a
 * pattern with look-around), `strict` throws too; otherwise the value comes as near as it can.
 */
export function toInstance(schema: unknown, strict = false): unknown {
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
    return Math.min(...toTypes(plain).map((type) => heightAs(plain, type)))
  }

  const heightAs = (plain: Schema, type: unknown): number => {
    if (type === 'object') return 1 + Math.max(0, ...requiredOf(plain).map((name) => height(propertyOf(plain, name))))
    if (type !== 'array') return 0
    const items = itemsOf(plain, toCount(plain.minItems))
    return items.length === 0 ? 0 : 1 + Math.max(...new Set(items.map((item) => height(item))))
  }

  const charge = (chars: number) => {
    nodes += chars / CHARS_A_NODE
    if (nodes > MAX_NODES) throw new NoInstance('the shortest value of the schema is too large')
  }

  const listed = (value: unknown): unknown => {
    charge(JSON.stringify(value)?.length ?? 0)
    return value
  }

  const build = (given: unknown, depth: number, variant: number): unknown => {
    charge(CHARS_A_NODE)
    const plain = resolve(given)
    if (!plain) throw new NoInstance('the schema accepts nothing')
    if ('const' in plain) return listed(plain.const)
    if (Array.isArray(plain.enum)) return listed(pickValue(plain, plain.enum, variant))
    const branches = toBranches(plain)
    if (branches) {
      const branch = pick(branches, (one) => height(withBranch(plain, one)), depth)
      return build(withBranch(plain, branch), depth, variant)
    }
    const type = typeAt(plain, depth)
    if (type === 'object') return buildObject(plain, depth)
    if (type === 'array') return buildArray(plain, depth)
    if (type === 'null') return null
    if (type === 'boolean') return variant % 2 === 0
    if (type === 'integer' || type === 'number') return toNumber({ ...plain, type }, variant) ?? near(plain, 1)
    if (typeof plain.pattern === 'string') charge(plain.pattern.length)
    const text = toText(plain, variant) ?? near(plain, toText({ ...plain, pattern: undefined }, variant))
    charge(text?.length ?? 0)
    return text
  }

  const near = <T>(plain: Schema, value: T): T => {
    if (!strict) return value
    throw new NoInstance(`it cannot write ${JSON.stringify(plain).slice(0, MAX_QUOTED)}`)
  }

  const typeAt = (plain: Schema, depth: number): unknown => {
    const types = toTypes(plain)
    if (types.length === 1) return types[0]
    if (depth >= GENEROUS_DEPTH && types.includes('null')) return 'null'
    return pick(types, (type) => heightAs(plain, type), depth)
  }

  const pickValue = (plain: Schema, values: readonly unknown[], variant: number): unknown => {
    charge(values.length)
    const fitting = values.filter((value) => fitsLeaf(plain, value))
    if (fitting.length > 0) return fitting[variant % fitting.length]
    return near(plain, values[0])
  }

  /** Picks the first that comes to an end, or the one that does so soonest. */
  const pick = <T>(ways: readonly T[], toHeight: (way: T) => number, depth: number): T => {
    charge(ways.length)
    const ranked = ways.map((way) => ({ way, rank: toHeight(way) })).filter(({ rank }) => Number.isFinite(rank))
    const least = Math.min(...ranked.map(({ rank }) => rank))
    const best = depth < GENEROUS_DEPTH ? ranked[0] : ranked.find(({ rank }) => rank === least)
    if (!best) throw new NoInstance('the schema is recursive without an end')
    return best.way
  }

  const buildObject = (plain: Schema, depth: number): unknown => {
    const required = new Set(requiredOf(plain))
    const known = Object.keys(propertiesOf(plain))
    charge(known.length)
    const optional = depth < GENEROUS_DEPTH ? known.filter((name) => !required.has(name)) : []
    const possible = optional.filter((name) => Number.isFinite(height(propertyOf(plain, name))))
    const most = typeof plain.maxProperties === 'number' ? plain.maxProperties : Number.POSITIVE_INFINITY
    const names = [...required, ...possible].slice(0, Math.max(most, required.size))
    for (let i = 1; names.length < toCount(plain.minProperties); i += 1) names.push(`extra_${i}`)
    charge(names.reduce((sum, name) => sum + name.length, 0))
    return Object.fromEntries(inOrder(known, names).map((name) => [name, build(propertyOf(plain, name), depth + 1, 0)]))
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

const toCount = (value: unknown): number => {
  const count = typeof value === 'number' ? value : 0
  if (count > MAX_NODES) throw new NoInstance('the shortest value of the schema is too large')
  return count
}
