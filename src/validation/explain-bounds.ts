/** The sentences for values of the right type that are too long, too large or too many, for `explain.ts`. Pure. */
import type { TSchema } from '@sinclair/typebox'
import { ValueErrorType } from '@sinclair/typebox/errors'
import { bound, type Problem, quote, type Segments } from './explain-words.ts'

/** Says what bound of its schema a value is beyond; null for an error that has no sentence. */
export function brokenBound(type: ValueErrorType, schema: TSchema, value: unknown, at: Segments): Problem | null {
  const say = (code: string, what: string, expected: string, got: string) => bound(at, code, what, expected, got)
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
