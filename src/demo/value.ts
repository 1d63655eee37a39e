/**
 * Builds a small value that matches a JSON Schema, or fails rather than return a wrong one. Covers the keywords of strict schemas and other
 * common ones, and limits the work for a client's schema. Optional properties and first branches of unions are used only near the root.
 * Deeper values are the smallest possible.
 */
import { UpstreamError } from '../domain/error.ts'
import { isObject } from '../domain/json.ts'

/** One unit for each schema visited and each hundred characters written. */
const MAX_WORK = 20_000
const CHARS_A_UNIT = 100
/** Nesting of values and unions. */
const MAX_ROOM = 40
const GENEROUS_DEPTH = 3
/** Characters of a schema quoted in an error. */
const MAX_QUOTED = 200

/** Unsupported keywords: schemas that use them get no value. */
const BEYOND = [
  'not',
  'if',
  'contains',
  'dependentRequired',
  'dependentSchemas',
  'propertyNames',
  'minProperties',
  'maxProperties',
]

/** An upstream's error 400. */
export const cannot = (sentence: string) => new UpstreamError('status', sentence, { status: 400, retryable: false })

/** A matching value as JSON; without a schema, any object. @throws an UpstreamError if it finds none. */
export const toJson = (schema: unknown): string => JSON.stringify(toValue(schema ?? { type: 'object' }))

/** @throws an UpstreamError if it finds no value. */
export function toValue(schema: unknown): unknown {
  let work = 0
  let reason = 'it accepts nothing or is infinitely recursive'
  const plains = new Map<Schema, Schema | null>()
  const choices = new Map<Schema, (Schema | null)[]>()
  /** The largest `room` in which no value was found. */
  const tooTight = new Map<Schema, number>()

  const spend = (units: number) => {
    work += units
    if (work > MAX_WORK) throw none('the smallest value found is too large')
  }

  /** Resolves `$ref` and merges `allOf` into one plain schema; null if it accepts nothing. */
  const toPlain = (given: unknown): Schema | null => {
    if (given === true || given === undefined) return {}
    if (!isObject(given)) return null
    const known = plains.get(given)
    if (known !== undefined) return known
    spend(1)
    // A schema that only refers to itself accepts nothing.
    plains.set(given, null)
    const { $ref, allOf, ...own } = given
    const parts = [...(typeof $ref === 'string' ? [pointTo(schema, $ref)] : []), ...(Array.isArray(allOf) ? allOf : [])]
    const plain = parts.length === 0 ? given : parts.reduce<Schema | null>((sum, part) => both(sum, toPlain(part)), own)
    plains.set(given, plain)
    return plain
  }

  const both = (a: Schema | null, b: Schema | null) => a && b && merge(a, b)

  /** Branches of a union, merged with its other keywords, or one schema per type; empty if there is no choice. */
  const toChoices = (plain: Schema): (Schema | null)[] => {
    const known = choices.get(plain)
    if (known) return known
    const { [plain.anyOf ? 'anyOf' : 'oneOf']: branches, ...beside } = plain
    const types = toTypes(plain)
    const found = Array.isArray(branches)
      ? branches.map((branch) => both(beside, toPlain(branch)))
      : types.length > 1
        ? types.map((type) => ({ ...plain, type }))
        : []
    spend(found.length)
    choices.set(plain, found)
    return found
  }

  /** Undefined if there is no value. */
  const build = (given: unknown, depth: number, room: number, variant = 0): unknown => {
    const plain = toPlain(given)
    if (!plain || room < 0 || room <= (tooTight.get(plain) ?? -1)) return undefined
    spend(1)
    const value = toAny(plain, depth, room, variant)
    if (value === undefined) tooTight.set(plain, room)
    return value
  }

  const toAny = (plain: Schema, depth: number, room: number, variant: number): unknown => {
    if (BEYOND.some((name) => name in plain)) return toLeaf(plain, [], 0)
    if ('const' in plain) return toLeaf(plain, [plain.const], 0)
    if (Array.isArray(plain.enum)) return toLeaf(plain, plain.enum, variant)
    const ways = toChoices(plain)
    if (ways.length > 0) return choose(ways, depth, room, variant)
    const [type] = toTypes(plain)
    if (type === 'object') return toObject(plain, depth, room)
    if (type === 'array') return toList(plain, depth, room)
    if (type === 'null') return null
    if (type === 'boolean') return variant % 2 === 0
    return toLeaf(plain, type === 'string' ? toTexts(plain, variant) : toNumbers(plain, variant), variant)
  }

  const choose = (ways: readonly (Schema | null)[], depth: number, room: number, variant: number): unknown => {
    const first = depth < GENEROUS_DEPTH ? room - 1 : 0
    for (let least = first; least < room; least += 1) {
      for (const way of ways) {
        const value = way ? build(way, depth, least, variant) : undefined
        if (value !== undefined) return value
      }
    }
    return undefined
  }

  const toLeaf = (plain: Schema, candidates: readonly unknown[], variant: number): unknown => {
    const fitting = [...new Set(candidates)].filter((value) => accepts(plain, value))
    spend(candidates.length / 10)
    if (fitting.length === 0) reason = `no value for ${JSON.stringify(plain).slice(0, MAX_QUOTED)}`
    const value = fitting[variant % fitting.length]
    spend((JSON.stringify(value)?.length ?? 0) / CHARS_A_UNIT)
    return value
  }

  const toObject = (plain: Schema, depth: number, room: number): unknown => {
    const properties = propertiesOf(plain)
    const required = new Set(requiredOf(plain))
    const entries: [string, unknown][] = []
    // Models write properties in the schema's order.
    for (const name of new Set([...Object.keys(properties), ...required])) {
      const isRequired = required.has(name)
      if (!isRequired && depth >= GENEROUS_DEPTH) continue
      spend(name.length / CHARS_A_UNIT)
      const inner = Object.hasOwn(properties, name) ? properties[name] : plain.additionalProperties
      const value = build(inner, depth + 1, room - 1)
      if (value === undefined && isRequired) return undefined
      if (value !== undefined) entries.push([name, value])
    }
    return Object.fromEntries(entries)
  }

  const toList = (plain: Schema, depth: number, room: number): unknown => {
    const fixed = [plain.prefixItems, plain.items].find(Array.isArray) ?? []
    const rest = Array.isArray(plain.items) ? plain.additionalItems : plain.items
    const least = isNumber(plain.minItems) ? plain.minItems : 0
    const most = isNumber(plain.maxItems) ? plain.maxItems : Number.POSITIVE_INFINITY
    if (least > most) return undefined
    const list: unknown[] = []
    while (list.length < least || (list.length < Math.min(most, 1) && depth < GENEROUS_DEPTH)) {
      const value = build(list.length < fixed.length ? fixed[list.length] : rest, depth + 1, room - 1, list.length)
      if (value === undefined) return least === 0 ? [] : undefined
      list.push(value)
    }
    if (plain.uniqueItems !== true) return list
    return new Set(list.map((value) => JSON.stringify(value))).size === list.length ? list : undefined
  }

  try {
    const value = build(schema, 0, MAX_ROOM)
    if (value === undefined) throw none(reason)
    return value
  } catch (thrown) {
    if (thrown instanceof URIError) throw none('one of its references is not a valid URI')
    // A chain of references overflowed the stack.
    throw thrown instanceof RangeError ? none('it is nested too deeply') : thrown
  }
}

const none = (reason: string) => cannot(`The demo model found no value for the schema: ${reason}.`)

type Schema = Record<string, unknown>

const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value)

const propertiesOf = (plain: Schema): Schema => (isObject(plain.properties) ? plain.properties : {})

const requiredOf = (plain: Schema): string[] =>
  Array.isArray(plain.required) ? plain.required.filter((name) => typeof name === 'string') : []

/** Resolves a JSON pointer in a URI fragment (RFC 6901, section 6); false, which accepts nothing, if it doesn't exist. */
function pointTo(root: unknown, ref: string): unknown {
  if (!/^#(?:\/|$)/.test(ref)) return false
  const path = decodeURIComponent(ref).split('/').slice(1)
  return path.reduce<unknown>((at, part) => {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
    return typeof at === 'object' && at !== null && Object.hasOwn(at, name) ? Reflect.get(at, name) : false
  }, root)
}

/** Keywords without constraints. */
const SILENT = new Set(['$defs', 'definitions', 'title', 'description', 'default', 'examples', '$schema', '$id'])

/** Merges two schemas for the same value; null if they can't be merged. */
function merge(a: Schema, b: Schema): Schema | null {
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

/** Allowed types, null last; without `type`, the one that the keywords apply to. */
function toTypes(plain: Schema): unknown[] {
  if (plain.type !== undefined) return [plain.type].flat().sort((a, b) => Number(a === 'null') - Number(b === 'null'))
  const has = (...names: string[]) => names.some((name) => name in plain)
  if (has('properties', 'required', 'additionalProperties')) return ['object']
  if (has('items', 'prefixItems', 'minItems')) return ['array']
  return has('minimum', 'maximum', 'multipleOf', 'exclusiveMinimum', 'exclusiveMaximum') ? ['number'] : ['string']
}

/** Checks type, bounds, and lengths, but nothing nested. */
function accepts(plain: Schema, value: unknown): boolean {
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
  // Rounding errors: 0.3 / 0.1 is not 3.
  return !isNumber(multipleOf) || Math.abs(value / multipleOf - Math.round(value / multipleOf)) <= 1e-9
}

const FORMATS: Record<string, string> = {
  date: '2026-01-01',
  'date-time': '2026-01-01T00:00:00Z',
  time: '00:00:00Z',
  duration: 'P1D',
  email: 'demo@example.com',
  hostname: 'example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uuid: '00000000-0000-4000-8000-000000000000',
  uri: 'https://example.com/',
  url: 'https://example.com/',
  'uri-reference': '/demo',
}

const MAX_TEXT = 10_000

/** Candidates for a string; none for a pattern or an excessive length. `variant` counts up in a list. */
function toTexts({ format, pattern, minLength, maxLength }: Schema, variant: number): string[] {
  const least = isNumber(minLength) ? minLength : 0
  const known = typeof format === 'string' && Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined
  if (known !== undefined) return [known]
  if (typeof pattern === 'string' || least > MAX_TEXT) return []
  const text = variant === 0 ? 'demo' : `${variant + 1} demo`
  return [text.padEnd(least, '.').slice(0, isNumber(maxLength) ? maxLength : undefined)]
}

/** Candidates for a number, simplest first: 1, multiples from either bound, the middle. */
function toNumbers(plain: Schema, variant: number): number[] {
  const low = bound(Math.max, plain.minimum, plain.exclusiveMinimum)
  const high = bound(Math.min, plain.maximum, plain.exclusiveMaximum)
  const step = isNumber(plain.multipleOf) && plain.multipleOf > 0 ? plain.multipleOf : 1
  const first = low === null ? 1 : Math.ceil(low / step)
  const last = high === null ? 0 : Math.floor(high / step)
  const steps = Array.from({ length: Math.min(variant, 1_000) + 3 }, (_, i) => i)
  const multiples = [...steps.map((i) => first + i), ...steps.map((i) => last - i)].map((count) => count * step)
  const middle = low !== null && high !== null ? (low + high) / 2 : 0
  // Multiples are also tried without rounding errors.
  return [1, ...multiples.map((value) => Number(value.toPrecision(15))), middle, ...multiples]
}

function bound(narrower: (...bounds: number[]) => number, ...bounds: unknown[]): number | null {
  const known = bounds.filter(isNumber)
  return known.length === 0 ? null : narrower(...known)
}
