/** What `json-schema.ts` knows of JSON Schema's keywords: what each may be, and which of them hold schemas. Pure. */
import { isObject } from './explain-words.ts'

export type Schema = Record<string, unknown>

const toSet = (words: string): ReadonlySet<string> => new Set(words.split(' '))

/** Keywords whose schemas judge the very value that they stand beside, not a part of it. */
export const IN_PLACE = toSet('allOf anyOf dependencies dependentSchemas else if not oneOf then')

const HOLD_ONE = toSet(
  'additionalItems additionalProperties contains else if items not propertyNames then unevaluatedItems unevaluatedProperties',
)
const HOLD_A_LIST = toSet('allOf anyOf items oneOf prefixItems')
const HOLD_BY_NAME = toSet('$defs definitions dependencies dependentSchemas patternProperties properties')

const TYPES = toSet('array boolean integer null number object string')

const isType = (value: unknown) => typeof value === 'string' && TYPES.has(value)
const isList = (value: unknown) => Array.isArray(value) && value.length > 0
const isTypes = (value: unknown) => isType(value) || (Array.isArray(value) && isList(value) && value.every(isType))
const isCount = (value: unknown) => Number.isInteger(value) && Number(value) >= 0
const isStep = (value: unknown) => Number.isFinite(value) && Number(value) > 0
const isBoolean = (value: unknown) => typeof value === 'boolean'
const isText = (value: unknown) => typeof value === 'string'
const isNames = (value: unknown) => Array.isArray(value) && value.every(isText)

const SHAPES: [names: string, holds: (value: unknown) => boolean, expected: string][] = [
  ['type', isTypes, `one of ${[...TYPES].map((type) => `'${type}'`).join(', ')}, or an array of them`],
  ['maxContains maxItems maxLength maxProperties minContains minItems minLength minProperties', isCount, 'a count'],
  ['exclusiveMaximum exclusiveMinimum maximum minimum', Number.isFinite, 'a number'],
  ['multipleOf', isStep, 'a number above 0'],
  ['uniqueItems', isBoolean, 'a boolean'],
  ['$ref format pattern', isText, 'a string'],
  ['required', isNames, 'an array of strings'],
  ['allOf anyOf enum oneOf prefixItems', isList, 'an array that is not empty'],
  ['dependentRequired', isObject, 'an object'],
  [[...HOLD_BY_NAME].join(' '), isObject, 'an object'],
]
const SHAPE_OF = new Map(
  SHAPES.flatMap(([names, holds, expected]) => names.split(' ').map((name) => [name, { holds, expected }] as const)),
)

/**
 * Checks what stands directly in a schema, and calls `each` with every schema below it. Returns what is wrong with the
 * first keyword that is, or null. Words that are no keywords may be anything.
 */
export function checkKeywords(schema: Schema, each: (below: unknown, keys: string[]) => void): string | null {
  for (const name in schema) {
    const value = schema[name]
    const shape = SHAPE_OF.get(name)
    if (shape && !shape.holds(value)) return `'${name}' is required to be ${shape.expected}.`
    if (HOLD_A_LIST.has(name) && Array.isArray(value)) {
      for (const [index, below] of value.entries()) each(below, [name, String(index)])
    } else if (HOLD_ONE.has(name)) each(value, [name])
    else if (HOLD_BY_NAME.has(name) && isObject(value)) {
      // `dependencies` may also list names.
      for (const key in value) if (name !== 'dependencies' || !isNames(value[key])) each(value[key], [name, key])
    }
  }
  return null
}

/** Whether a schema names the type among those that it takes. */
export const allows = ({ type }: Schema, name: string) => type === name || (Array.isArray(type) && type.includes(name))
