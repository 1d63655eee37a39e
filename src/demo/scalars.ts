/**
 * The leaves of `demo-json.ts`: a number and a text that meet their schema's keywords. `variant` counts up in a list,
 * so that lists of unique items are. Pure and bounded.
 */
import { toMatching } from './pattern.ts'

type Keywords = Record<string, unknown>

const FORMATS: Record<string, string> = {
  date: '2026-01-01',
  'date-time': '2026-01-01T00:00:00Z',
  time: '00:00:00Z',
  duration: 'P1D',
  email: 'demo@example.com',
  'idn-email': 'demo@example.com',
  hostname: 'example.com',
  'idn-hostname': 'example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uuid: '00000000-0000-4000-8000-000000000000',
  uri: 'https://example.com/',
  url: 'https://example.com/',
  'uri-reference': '/demo',
  'uri-template': '/demo',
  iri: 'https://example.com/',
  'json-pointer': '/demo',
  regex: 'demo',
}

const MAX_TEXT = 10_000

/** Converts a string schema to a text; null where its pattern, or its pattern and lengths together, are beyond it. */
export function toText(schema: Keywords, variant: number): string | null {
  const least = Math.min(toNumeric(schema.minLength) ?? 0, MAX_TEXT)
  const most = toNumeric(schema.maxLength) ?? Number.POSITIVE_INFINITY
  const known = typeof schema.format === 'string' ? FORMATS[schema.format] : undefined
  if (known !== undefined) return known
  if (typeof schema.pattern === 'string') {
    const matching = toMatching(schema.pattern, least)
    return matching !== null && matching.length >= least && matching.length <= most ? matching : null
  }
  const text = variant === 0 ? 'demo' : `${variant + 1} demo`
  return text.padEnd(least, '.').slice(0, most)
}

/** Converts a number or integer schema to a number: 1 where that is allowed, else something near a bound; or null. */
export function toNumber(schema: Keywords, variant: number): number | null {
  const low = narrowest(Math.max, schema.minimum, schema.exclusiveMinimum)
  const high = narrowest(Math.min, schema.maximum, schema.exclusiveMaximum)
  const step = toStep(schema)
  const up = low === null ? 0 : Math.ceil(low / step)
  const down = high === null ? 0 : Math.floor(high / step)
  const near = [0, 1, 2, 3, 4, 5]
  const multiples = [...near.map((i) => up + i), ...near.map((i) => down - i)].map((count) => count * step)
  const middle = low !== null && high !== null ? [(low + high) / 2] : []
  const far =
    low === null ? (high === null ? [] : [high, high - 1, high * 2, high / 2]) : [low, low + 1, low * 2, low / 2]
  // `0.1 * 3` is not 0.3: validators accept now the one and now the other.
  const candidates = [1, 0, ...multiples.flatMap((value) => [toDecimal(value), value]), ...middle, ...far]
  const allowed = [...new Set(candidates)].filter((value) => accepts(schema, value))
  const fits = allowed.some((value) => isMultiple(schema, value, 0))
    ? allowed.filter((value) => isMultiple(schema, value, 0))
    : allowed.filter((value) => isMultiple(schema, value, 1e-9))
  const first = fits[0]
  if (first === undefined) return null
  const next = first + variant * step
  if (accepts(schema, next) && isMultiple(schema, next, 0)) return next
  return fits[variant % fits.length] ?? first
}

/** Says whether a listed value has the type and the bounds that stand beside the list. */
export function fitsLeaf(schema: Keywords, value: unknown): boolean {
  const types = Array.isArray(schema.type) ? schema.type : schema.type === undefined ? [] : [schema.type]
  if (types.length > 0 && !types.includes(typeOf(value)) && !(Number.isInteger(value) && types.includes('integer')))
    return false
  return typeof value !== 'number' || (accepts({ ...schema, type: 'number' }, value) && isMultiple(schema, value, 1e-9))
}

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

/** How far apart the numbers are that a schema allows, where it says; else 1. */
function toStep({ type, multipleOf }: Keywords): number {
  const step = toNumeric(multipleOf)
  if (step === null || step <= 0) return 1
  if (type !== 'integer') return step
  const whole = Array.from({ length: 1_000 }, (_, i) => toDecimal((i + 1) * step)).find(Number.isInteger)
  return whole ?? step
}

/** Takes the noise of binary fractions off a number. */
const toDecimal = (value: number) => Number(value.toPrecision(15))

function narrowest(choose: (...bounds: number[]) => number, ...bounds: unknown[]): number | null {
  const known = bounds.map(toNumeric).filter((bound) => bound !== null)
  return known.length === 0 ? null : choose(...known)
}

function isMultiple({ multipleOf }: Keywords, value: number, tolerance: number): boolean {
  const step = toNumeric(multipleOf)
  return !step || Math.abs(value / step - Math.round(value / step)) <= tolerance
}

function accepts(schema: Keywords, value: number): boolean {
  if (!Number.isFinite(value) || (schema.type === 'integer' && !Number.isInteger(value))) return false
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema
  if (typeof minimum === 'number' && value < minimum) return false
  if (typeof maximum === 'number' && value > maximum) return false
  if (typeof exclusiveMinimum === 'number' && value <= exclusiveMinimum) return false
  return !(typeof exclusiveMaximum === 'number' && value >= exclusiveMaximum)
}

const toNumeric = (value: unknown): number | null =>
  typeof value === 'number' && Number.isFinite(value) ? value : null
