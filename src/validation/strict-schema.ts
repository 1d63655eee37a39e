/**
 * The subset of JSON Schema that `strict: true` allows in OpenAI's API, in its own words where they are known. Pure. Words that are no keywords of JSON Schema, and those that only describe, are allowed.
 */
import { isObject, quote, shorten } from './explain-words.ts'
import {
  allows,
  checkSchema,
  isRoot,
  type Schema,
  type SchemaNode,
  type SchemaProblem,
  type SchemaRule,
} from './json-schema.ts'

const FORBIDDEN = new Set(
  (
    'allOf oneOf not if then else dependentRequired dependentSchemas dependencies minLength maxLength patternProperties ' +
    'propertyNames minProperties maxProperties prefixItems additionalItems contains minContains maxContains uniqueItems ' +
    'unevaluatedItems unevaluatedProperties $dynamicRef $recursiveRef'
  ).split(' '),
)

const INSTEAD_OF_TYPE = ['$ref', 'anyOf', 'enum', 'const']

const MOST = { properties: 5_000, levels: 10, chars: 120_000, values: 1_000, enumValues: 250, enumChars: 15_000 }

/** Returns the first thing in a schema that strict mode does not allow, or null. `rules` are held to as well. */
export const checkStrict = (schema: unknown, ...rules: SchemaRule[]): SchemaProblem | null =>
  checkSchema(schema, checkWords, checkShape, createLimits(), ...rules)

/** The same of who holds models to any schema, as engines with grammars do: its keywords may be all that there are. */
export const checkStrictShape = (schema: unknown, ...rules: SchemaRule[]): SchemaProblem | null =>
  checkSchema(schema, (each, node) => (findForbidden(each) ? null : checkShape(each, node)), createLimits(), ...rules)

const findForbidden = (schema: Schema | boolean): string | undefined =>
  typeof schema === 'boolean' ? undefined : Object.keys(schema).find((keyword) => FORBIDDEN.has(keyword))

function checkWords(schema: Schema | boolean): string | null {
  const keyword = findForbidden(schema)
  return keyword === undefined ? null : `'${keyword}' is not permitted.`
}

function checkShape(schema: Schema | boolean, node: SchemaNode): string | null {
  if (typeof schema === 'boolean') {
    if (node.keys[0] === 'additionalProperties') return null
    return 'schema is required to be an object, but got a boolean.'
  }
  if (isRoot(node)) {
    const reason = checkRoot(schema)
    if (reason) return reason
  }
  if (schema.type === undefined && !INSTEAD_OF_TYPE.some((keyword) => schema[keyword] !== undefined)) {
    return "schema must have a 'type' key."
  }
  return (
    (allows(schema, 'object') ? checkObject(schema) : null) ?? (allows(schema, 'array') ? checkArray(schema) : null)
  )
}

/** The words for what is not an object, where one has to be. */
export const notObject = ({ type = 'None' }: Schema) =>
  `schema must be a JSON Schema of 'type: "object"', got 'type: "${[type].flat().join(', ')}"'.`

function checkRoot(schema: Schema): string | null {
  if (schema.type !== 'object') return notObject(schema)
  return schema.anyOf === undefined ? null : "schema must have type 'object' and not have 'anyOf' at the top level."
}

function checkObject({ properties, required, additionalProperties }: Schema): string | null {
  if (!isObject(properties)) return 'object schema missing properties.'
  if (additionalProperties !== false) return "'additionalProperties' is required to be supplied and to be false."
  const names = new Set<unknown>(Array.isArray(required) ? required : [])
  const rule = "'required' is required to be supplied and to be an array including every key in properties."
  for (const name in properties) if (!names.has(name)) return `${rule} Missing ${quote(name)}.`
  for (const name of names) {
    if (!Object.hasOwn(properties, String(name))) return `${rule} Extra required key ${quote(name)} supplied.`
  }
  return null
}

function checkArray({ items }: Schema): string | null {
  if (items === undefined) return 'array schema missing items.'
  return isObject(items) ? null : "'items' is required to be one schema."
}

/** Counts over a whole schema, and refuses it where it grows too large. */
function createLimits(): SchemaRule {
  let properties = 0
  let chars = 0
  let values = 0
  return (schema, node) => {
    if (typeof schema === 'boolean') return null
    const levels = levelsOf(node)
    const listed: unknown[] = Array.isArray(schema.enum) ? schema.enum : []
    const listedChars = charsOf(listed)
    const names = [schema.properties, schema.$defs, schema.definitions].map(namesOf)
    properties += names[0]?.length ?? 0
    values += listed.length
    chars += listedChars + charsOf([...names.flat(), schema.const])
    if (levels > MOST.levels) return exceeds(levels, 'levels of nesting', MOST.levels)
    if (properties > MOST.properties) return exceeds(properties, 'parameters', MOST.properties)
    if (values > MOST.values) return exceeds(values, 'enum values', MOST.values)
    if (listed.length > MOST.enumValues && listedChars > MOST.enumChars)
      return exceeds(listedChars, `characters in an enum of more than ${MOST.enumValues} values`, MOST.enumChars)
    return chars > MOST.chars ? exceeds(chars, 'characters of names, enums and constants', MOST.chars) : null
  }
}

const exceeds = (count: number, what: string, most: number) => `${count} ${what} exceeds limit of ${most}.`

const namesOf = (value: unknown): string[] => (isObject(value) ? Object.keys(value) : [])

function charsOf(values: readonly unknown[]): number {
  let chars = 0
  for (const value of values) if (typeof value === 'string') chars += value.length
  return chars
}

/** Counts the objects and arrays that a schema stands in, itself included. A definition starts anew. */
function levelsOf(node: SchemaNode): number {
  let levels = 0
  for (let at: SchemaNode | null = node; at; at = at.parent) {
    if (isObject(at.schema) && (at.schema.properties !== undefined || at.schema.items !== undefined)) levels += 1
    if (at.keys[0] === '$defs' || at.keys[0] === 'definitions') break
  }
  return levels
}

const MAX_PATTERN_CHARS = 100_000

/** A rule for schemas that values are checked against: their patterns are regular expressions of this runtime. */
export function createPatternRule(): SchemaRule {
  let chars = 0
  return (schema) => {
    if (typeof schema === 'boolean') return null
    const patterns = namesOf(schema.patternProperties)
    if (typeof schema.pattern === 'string') patterns.push(schema.pattern)
    chars += charsOf(patterns)
    if (chars > MAX_PATTERN_CHARS) return exceeds(chars, 'characters of patterns', MAX_PATTERN_CHARS)
    const wrong = patterns.find((pattern) => !isPattern(pattern))
    return wrong === undefined ? null : `'${shorten(wrong)}' is not a 'regex'.`
  }
}

/** Without the flag for Unicode more is allowed: `\-` is common in patterns from other languages. */
const isPattern = (pattern: string) => ['', 'u'].some((flag) => isRegExp(pattern, flag))

function isRegExp(pattern: string, flag: string): boolean {
  try {
    new RegExp(pattern, flag)
    return true
  } catch {
    return false
  }
}
