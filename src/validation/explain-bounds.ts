/**
 * The types and bounds of single values, for `explain.ts`: is it a string, is it too long, are there too many of them.
 * Pure; it looks at no value inside another.
 */
import { Kind, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { bound, isObject, isPlainObject, type Problem, quote, type Segments, unexplained } from './explain-words.ts'

/** Whether a value has the schema's JSON type; true for kinds that are no JSON type of their own. */
export function accepts(schema: TSchema, value: unknown): boolean {
  switch (schema[Kind]) {
    case 'String':
      return typeof value === 'string'
    case 'Number':
      return Number.isFinite(value)
    case 'Integer':
      return Number.isInteger(value)
    case 'Boolean':
      return typeof value === 'boolean'
    case 'Array':
      return Array.isArray(value)
    case 'Object':
      return isObject(value)
    case 'Record':
      return isPlainObject(value)
    default:
      return true
  }
}

/** Returns what is wrong with the length, size or range of a value that has the schema's type. */
export function checkBounds(schema: TSchema, value: unknown, at: Segments): Problem | null {
  const kind = schema[Kind]
  if (kind === 'String' && typeof value === 'string') return checkString(schema, value, at)
  if ((kind === 'Number' || kind === 'Integer') && typeof value === 'number') return checkNumber(schema, value, at)
  if (kind === 'Array' && Array.isArray(value)) return checkArray(schema, value, at)
  if ((kind === 'Object' || kind === 'Record') && isObject(value)) return checkSize(schema, value, at)
  return null
}

function checkString(schema: TSchema, value: string, at: Segments): Problem | null {
  const length = value.length
  const got = length === 0 ? 'an empty string' : `a string with length ${length}`
  if (length < (schema.minLength ?? 0)) {
    const what = length === 0 ? 'empty string' : 'string too short'
    return bound(at, 'string_below_min_length', what, `a string with minimum length ${schema.minLength}`, got)
  }
  if (length > (schema.maxLength ?? Infinity)) {
    const expected = `a string with maximum length ${schema.maxLength}`
    return bound(at, 'string_above_max_length', 'string too long', expected, got)
  }
  if (typeof schema.pattern === 'string' && !new RegExp(schema.pattern).test(value)) {
    const expected = `a string that matches the pattern '${schema.pattern}'`
    return bound(at, 'invalid_value', 'string does not match pattern', expected, quote(value))
  }
  return schema.format !== undefined && !Value.Check(schema, value) ? unexplained(at) : null
}

function checkNumber(schema: TSchema, value: number, at: Segments): Problem | null {
  const kind = schema[Kind] === 'Integer' ? 'integer' : 'decimal'
  const above = (expected: string) =>
    bound(at, `${kind}_above_max_value`, `${kind} above maximum value`, `a value ${expected}`, String(value))
  const below = (expected: string) =>
    bound(at, `${kind}_below_min_value`, `${kind} below minimum value`, `a value ${expected}`, String(value))
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema
  if (minimum !== undefined && value < minimum) return below(`>= ${minimum}`)
  if (maximum !== undefined && value > maximum) return above(`<= ${maximum}`)
  if (exclusiveMinimum !== undefined && value <= exclusiveMinimum) return below(`> ${exclusiveMinimum}`)
  if (exclusiveMaximum !== undefined && value >= exclusiveMaximum) return above(`< ${exclusiveMaximum}`)
  return multipleOf !== undefined && value % multipleOf !== 0 ? unexplained(at) : null
}

function checkArray(schema: TSchema, value: unknown[], at: Segments): Problem | null {
  const length = value.length
  const got = length === 0 ? 'an empty array' : `an array with length ${length}`
  if (length < (schema.minItems ?? 0)) {
    const [code, what] = length === 0 ? ['empty_array', 'empty array'] : ['array_below_min_length', 'array too short']
    return bound(at, code, what, `an array with minimum length ${schema.minItems}`, got)
  }
  if (length > (schema.maxItems ?? Infinity)) {
    const expected = `an array with maximum length ${schema.maxItems}`
    return bound(at, 'array_above_max_length', 'array too long', expected, got)
  }
  const unusual = schema.uniqueItems === true || schema.contains !== undefined
  return unusual && !Value.Check(schema, value) ? unexplained(at) : null
}

function checkSize(schema: TSchema, value: Record<string, unknown>, at: Segments): Problem | null {
  if (schema.minProperties === undefined && schema.maxProperties === undefined) return null
  const size = Object.keys(value).length
  const got = `an object with ${size} properties`
  if (size > (schema.maxProperties ?? Infinity)) {
    const expected = `an object with at most ${schema.maxProperties} properties`
    return bound(at, 'object_above_max_properties', 'too many properties', expected, got)
  }
  if (size < (schema.minProperties ?? 0)) {
    const expected = `an object with at least ${schema.minProperties} properties`
    return bound(at, 'object_below_min_properties', 'too few properties', expected, got)
  }
  return null
}
