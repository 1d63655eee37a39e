/**
 * The leaves of `demo-json.ts`: a number and a text that meet their schema's keywords. `variant` counts up in a list,
 * so that lists of unique items are. Pure and bounded.
 */
import { toMatching } from './demo-pattern.ts'

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

/** Converts a string schema to a text. */
export function toText(schema: Keywords, variant: number): string {
  const least = Math.min(toNumeric(schema.minLength) ?? 0, MAX_TEXT)
  const most = toNumeric(schema.maxLength) ?? Number.POSITIVE_INFINITY
  const known = typeof schema.format === 'string' ? FORMATS[schema.format] : undefined
  if (known !== undefined) return known
  const matching = typeof schema.pattern === 'string' ? toMatching(schema.pattern, least) : null
  if (matching !== null) return matching
  const text = variant === 0 ? 'demo' : `${variant + 1} demo`
  return text.padEnd(least, '.').slice(0, most)
}

/** Converts a number or integer schema to a number: 1 where that is allowed, else something near a bound. */
export function toNumber(schema: Keywords, variant: number): number {
  const low = toNumeric(schema.minimum) ?? toNumeric(schema.exclusiveMinimum)
  const high = toNumeric(schema.maximum) ?? toNumeric(schema.exclusiveMaximum)
  const step = toNumeric(schema.multipleOf) ?? (schema.type === 'number' ? null : 1)
  const stepOrOne = step ?? 1
  const up = low === null ? 0 : Math.ceil(low / stepOrOne)
  const down = high === null ? 0 : Math.floor(high / stepOrOne)
  const middle = low !== null && high !== null ? [(low + high) / 2] : []
  const near = Array.from({ length: 6 }, (_, i) => i)
  const multiples = [...near.map((i) => up + i), ...near.map((i) => down - i)]
  const candidates = [1, 0, ...multiples.map((count) => count * stepOrOne), ...middle, low ?? 0, high ?? 0]
  const fits = [...new Set(candidates.filter((value) => accepts(schema, value)))]
  if (variant > 0) {
    const next = (fits[0] ?? 1) + variant * stepOrOne
    if (accepts(schema, next)) return next
  }
  return fits[variant % Math.max(fits.length, 1)] ?? low ?? high ?? 1
}

function accepts(schema: Keywords, value: number): boolean {
  if (schema.type === 'integer' && !Number.isInteger(value)) return false
  const step = toNumeric(schema.multipleOf)
  if (step && Math.abs(value / step - Math.round(value / step)) > 1e-9) return false
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema
  if (typeof minimum === 'number' && value < minimum) return false
  if (typeof maximum === 'number' && value > maximum) return false
  if (typeof exclusiveMinimum === 'number' && value <= exclusiveMinimum) return false
  return !(typeof exclusiveMaximum === 'number' && value >= exclusiveMaximum)
}

const toNumeric = (value: unknown): number | null =>
  typeof value === 'number' && Number.isFinite(value) ? value : null
