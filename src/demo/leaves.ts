/** What the demo may write for a schema of a single type that holds no other: numbers and texts. Pure and bounded. */
import { toMatching } from './pattern.ts'
import { isNumber, type Schema } from './schema.ts'

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

/** Returns the text to try for a string schema; none where its pattern or its length is beyond the demo. `variant` counts up in a list. */
export function toTexts({ format, pattern, minLength, maxLength }: Schema, variant: number): string[] {
  const least = isNumber(minLength) ? minLength : 0
  const known = typeof format === 'string' && Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined
  if (known !== undefined) return [known]
  if (typeof pattern === 'string') return [toMatching(pattern, least) ?? []].flat()
  if (least > MAX_TEXT) return []
  const text = variant === 0 ? 'demo' : `${variant + 1} demo`
  return [text.padEnd(least, '.').slice(0, isNumber(maxLength) ? maxLength : undefined)]
}

/** Returns the numbers to try for a number schema, the plainest first: 1, multiples from either bound, the middle. */
export function toNumbers(plain: Schema, variant: number): number[] {
  const low = bound(Math.max, plain.minimum, plain.exclusiveMinimum)
  const high = bound(Math.min, plain.maximum, plain.exclusiveMaximum)
  const step = toStep(plain)
  const first = low === null ? 1 : Math.ceil(low / step)
  const last = high === null ? 0 : Math.floor(high / step)
  const steps = Array.from({ length: Math.min(variant, 1_000) + 3 }, (_, i) => i)
  const multiples = [...steps.map((i) => first + i), ...steps.map((i) => last - i)].map((count) => count * step)
  const middle = low !== null && high !== null ? (low + high) / 2 : 0
  // Only a multiple may be written without the noise of binary fractions.
  return [1, ...multiples.map((value) => Number(value.toPrecision(15))), middle, ...multiples]
}

function bound(narrower: (...bounds: number[]) => number, ...bounds: unknown[]): number | null {
  const known = bounds.filter(isNumber)
  return known.length === 0 ? null : narrower(...known)
}

/** How far apart the numbers are that a schema allows; of integers, a whole number. */
function toStep({ type, multipleOf }: Schema): number {
  const step = isNumber(multipleOf) && multipleOf > 0 ? multipleOf : 1
  if (type !== 'integer' || Number.isInteger(step)) return step
  const multiples = Array.from({ length: 1_000 }, (_, i) => Number(((i + 1) * step).toPrecision(15)))
  return multiples.find(Number.isInteger) ?? step
}
