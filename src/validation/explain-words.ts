/**
 * The vocabulary of `explain.ts`: how a schema, a value and a path are called, and the sentences themselves. Pure. What it
 * quotes comes from clients, so everything quoted is shortened.
 */
import { Kind, type TSchema } from '@sinclair/typebox'
import { ValueErrorType } from '@sinclair/typebox/errors'

export interface Problem {
  /** `messages[0].content[1].text`; empty for the value itself. */
  path: string
  segments: (string | number)[]
  /** As OpenAI's API has it, such as `invalid_type`. */
  code: string
  /** One sentence. It may quote the value, shortened. */
  message: string
}

export type Segments = (string | number)[]
const LONGEST_QUOTE = 100

export const isNull = (schema: TSchema) => schema[Kind] === 'Null'
export const isLiteral = (schema: TSchema | undefined) => schema?.[Kind] === 'Literal'
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Flattens a union of unions into its alternatives; any other schema is its own only one. */
export function toAlternatives(schema: TSchema): TSchema[] {
  return schema[Kind] === 'Union' ? schema.anyOf.flatMap(toAlternatives) : [schema]
}

/** Writes a path as clients know it: `messages[0].content`. */
export function toPath(segments: readonly (string | number)[]): string {
  let path = ''
  for (const segment of segments) {
    if (typeof segment === 'number') path += `[${segment}]`
    // A client may have made the name of a field as long as it likes.
    else path += path === '' ? shorten(segment) : `.${shorten(segment)}`
  }
  return path
}

/** Cuts a text to what fits in a sentence, never in the middle of a surrogate pair. */
export function shorten(text: string): string {
  return text.length <= LONGEST_QUOTE ? text : `${text.slice(0, LONGEST_QUOTE).toWellFormed()}…`
}

/** Quotes a user's value. */
export function quote(value: unknown): string {
  return typeof value === 'string' ? `'${shorten(value)}'` : shorten(String(value))
}

/** Joins words as English does: `a`, `a or b`, `a, b, or c`. */
export function toList(words: string[], conjunction: 'and' | 'or'): string {
  const last = words.at(-1) ?? ''
  if (words.length < 3) return words.join(` ${conjunction} `)
  return `${words.slice(0, -1).join(', ')}, ${conjunction} ${last}`
}

/** Puts the article before a noun; a quoted value, a number or `null` takes none. */
export function toArticle(noun: string): string {
  if (noun === 'null' || noun === 'undefined' || !/^[a-z]/.test(noun)) return noun
  return `${/^[aeiou]/.test(noun) ? 'an' : 'a'} ${noun}`
}

/** Names the JSON type of a value. */
export function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  // `1e999` is JSON, and JavaScript reads it as Infinity.
  if (typeof value === 'number' && !Number.isFinite(value)) return 'number that is out of range'
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'decimal number'
  return typeof value
}

const NOUNS: Record<string, string> = {
  String: 'string',
  Number: 'decimal',
  Integer: 'integer',
  Boolean: 'boolean',
  Object: 'object',
  Record: 'object',
}

/** Names what a schema wants, without an article: `string`, `array of objects`, `'auto'`. */
function expectationOf(schema: TSchema): string {
  if (isLiteral(schema)) return quote(schema.const)
  if (schema[Kind] !== 'Array') return NOUNS[schema[Kind]] ?? 'value'
  const items = new Set(toAlternatives(schema.items).map(expectationOf))
  const [item] = items
  return items.size === 1 && item !== undefined && /^[a-z]+$/.test(item) ? `array of ${item}s` : 'array'
}

function problem(segments: Segments, code: string, message: string): Problem {
  return { path: toPath(segments), segments, code, message }
}

export const unexplained = (at: Segments) => problem(at, 'invalid_value', `Invalid value${forPath(at)}.`)

const forPath = (at: Segments) => (at.length === 0 ? '' : ` for '${shorten(toPath(at))}'`)

export const missing = (at: Segments) =>
  problem(at, 'missing_required_parameter', `Missing required parameter: '${shorten(toPath(at))}'.`)

export const unknown = (at: Segments) =>
  problem(at, 'unknown_parameter', `Unknown parameter: '${shorten(toPath(at))}'.`)

export function invalidValue(literals: TSchema[], value: unknown, at: Segments): Problem {
  const supported = toList(literals.map(expectationOf), 'and')
  return problem(at, 'invalid_value', `Invalid value: ${quote(value)}. Supported values are: ${supported}.`)
}

export function invalidType(branches: TSchema[], value: unknown, at: Segments): Problem {
  const words = [...new Set(branches.map(expectationOf))]
  const first = toArticle(words[0] ?? '')
  const expected = words.length === 1 ? first : `one of ${toList([first, ...words.slice(1)], 'or')}`
  const got = toArticle(kindOf(value))
  return problem(at, 'invalid_type', `Invalid type${forPath(at)}: expected ${expected}, but got ${got} instead.`)
}

/** Says what bound of its schema a value is beyond; null for an error that has no sentence. */
export function brokenBound(type: ValueErrorType, schema: TSchema, value: unknown, at: Segments): Problem | null {
  const where = at.length === 0 ? '' : ` '${shorten(toPath(at))}'`
  const say = (code: string, what: string, expected: string, got: string) =>
    problem(at, code, `Invalid${where}: ${what}. Expected ${expected}, but got ${got} instead.`)
  const kind = schema.type === 'integer' ? 'integer' : 'decimal'
  const length = typeof value === 'string' || Array.isArray(value) ? value.length : Object.keys(value ?? {}).length
  const isEmpty = length === 0
  const text = isEmpty ? 'an empty string' : `a string with length ${length}`
  const list = isEmpty ? 'an empty array' : `an array with length ${length}`
  switch (type) {
    case ValueErrorType.StringMinLength: {
      const expected = `a string with minimum length ${schema.minLength}`
      return say('string_below_min_length', isEmpty ? 'empty string' : 'string too short', expected, text)
    }
    case ValueErrorType.StringMaxLength: {
      const expected = `a string with maximum length ${schema.maxLength}`
      return say('string_above_max_length', 'string too long', expected, text)
    }
    case ValueErrorType.StringPattern: {
      const expected = `a string that matches the pattern '${schema.pattern}'`
      return say('invalid_value', 'string does not match pattern', expected, quote(value))
    }
    case ValueErrorType.IntegerMinimum:
    case ValueErrorType.NumberMinimum:
      return say(`${kind}_below_min_value`, `${kind} below minimum value`, `a value >= ${schema.minimum}`, `${value}`)
    case ValueErrorType.IntegerMaximum:
    case ValueErrorType.NumberMaximum:
      return say(`${kind}_above_max_value`, `${kind} above maximum value`, `a value <= ${schema.maximum}`, `${value}`)
    case ValueErrorType.ArrayMinItems: {
      const code = isEmpty ? 'empty_array' : 'array_below_min_length'
      const expected = `an array with minimum length ${schema.minItems}`
      return say(code, isEmpty ? 'empty array' : 'array too short', expected, list)
    }
    case ValueErrorType.ArrayMaxItems: {
      const expected = `an array with maximum length ${schema.maxItems}`
      return say('array_above_max_length', 'array too long', expected, list)
    }
    case ValueErrorType.ObjectMaxProperties: {
      const expected = `an object with at most ${schema.maxProperties} properties`
      const got = `an object with ${length} properties`
      return say('object_above_max_properties', 'too many properties', expected, got)
    }
    default:
      return null
  }
}
