/** What `json-schema.ts` knows of JSON Schema's keywords: what each may be, and which of them hold schemas. Pure. */
import { isObject } from './explain-words.ts'

export type Schema = Record<string, unknown>

/** Keywords whose schemas judge the very value that they stand beside, not a part of it. */
export const IN_PLACE = toSet('allOf anyOf dependencies dependentSchemas else if not oneOf then')

type Below = (schema: unknown, keys: string[]) => void

interface Keyword {
  holds(value: unknown): boolean
  expected: string
  /** Calls `each` with every schema that stands under the keyword. */
  forBelow?(name: string, value: unknown, each: Below): void
}

const TYPES = toSet('array boolean integer null number object string')

const isType = (value: unknown) => typeof value === 'string' && TYPES.has(value)
const isList = (value: unknown) => Array.isArray(value) && value.length > 0
const isNames = (value: unknown) => Array.isArray(value) && value.every((name) => typeof name === 'string')

const TYPE: Keyword = {
  holds: (value) => isType(value) || (Array.isArray(value) && value.length > 0 && value.every(isType)),
  expected: `one of ${[...TYPES].map((type) => `'${type}'`).join(', ')}, or an array of them`,
}
const COUNT: Keyword = { holds: (value) => Number.isInteger(value) && Number(value) >= 0, expected: 'a count' }
const NUMBER: Keyword = { holds: Number.isFinite, expected: 'a number' }
const STEP: Keyword = { holds: (value) => Number.isFinite(value) && Number(value) > 0, expected: 'a number above 0' }
const BOOLEAN: Keyword = { holds: (value) => typeof value === 'boolean', expected: 'a boolean' }
const TEXT: Keyword = { holds: (value) => typeof value === 'string', expected: 'a string' }
const NAMES: Keyword = { holds: isNames, expected: 'an array of strings' }
const LIST: Keyword = { holds: isList, expected: 'an array that is not empty' }
const OBJECT: Keyword = { holds: isObject, expected: 'an object' }

const SCHEMA: Keyword = {
  holds: () => true,
  expected: 'a schema',
  forBelow: (name, value, each) => each(value, [name]),
}
const SCHEMAS: Keyword = {
  ...LIST,
  forBelow(name, value, each) {
    if (Array.isArray(value)) for (const [index, schema] of value.entries()) each(schema, [name, String(index)])
  },
}
const SCHEMA_OR_SCHEMAS: Keyword = {
  ...SCHEMA,
  forBelow: (name, value, each) => (Array.isArray(value) ? SCHEMAS : SCHEMA).forBelow?.(name, value, each),
}
const SCHEMAS_BY_NAME: Keyword = {
  ...OBJECT,
  forBelow(name, value, each) {
    if (isObject(value)) for (const key in value) each(value[key], [name, key])
  },
}
const SCHEMAS_OR_NAMES_BY_NAME: Keyword = {
  ...OBJECT,
  forBelow(name, value, each) {
    if (isObject(value)) for (const key in value) if (!isNames(value[key])) each(value[key], [name, key])
  },
}

const KEYWORDS: ReadonlyMap<string, Keyword> = new Map([
  ...toEntries(TYPE, 'type'),
  ...toEntries(COUNT, 'maxContains maxItems maxLength maxProperties minContains minItems minLength minProperties'),
  ...toEntries(NUMBER, 'exclusiveMaximum exclusiveMinimum maximum minimum'),
  ...toEntries(STEP, 'multipleOf'),
  ...toEntries(BOOLEAN, 'uniqueItems'),
  ...toEntries(TEXT, '$ref format pattern'),
  ...toEntries(NAMES, 'required'),
  ...toEntries(LIST, 'enum'),
  ...toEntries(OBJECT, 'dependentRequired'),
  ...toEntries(SCHEMA, 'additionalItems additionalProperties contains else if not propertyNames then'),
  ...toEntries(SCHEMA, 'unevaluatedItems unevaluatedProperties'),
  ...toEntries(SCHEMAS, 'allOf anyOf oneOf prefixItems'),
  ...toEntries(SCHEMA_OR_SCHEMAS, 'items'),
  ...toEntries(SCHEMAS_BY_NAME, '$defs definitions dependentSchemas patternProperties properties'),
  ...toEntries(SCHEMAS_OR_NAMES_BY_NAME, 'dependencies'),
])

/**
 * Checks what stands directly in a schema, and calls `each` with every schema below it. Returns what is wrong with the
 * first keyword that is, or null. Words that are no keywords may be anything.
 */
export function checkKeywords(schema: Schema, each: Below): string | null {
  for (const name in schema) {
    const keyword = KEYWORDS.get(name)
    if (!keyword) continue
    const value = schema[name]
    if (!keyword.holds(value)) return `'${name}' is required to be ${keyword.expected}.`
    keyword.forBelow?.(name, value, each)
  }
  return null
}

/** Whether a schema names the type among those that it takes. */
export const allows = ({ type }: Schema, name: string) => type === name || (Array.isArray(type) && type.includes(name))

function toSet(words: string): ReadonlySet<string> {
  return new Set(words.split(' '))
}

function toEntries(keyword: Keyword, names: string): [string, Keyword][] {
  return names.split(' ').map((name) => [name, keyword])
}
