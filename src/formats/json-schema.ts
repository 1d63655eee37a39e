/** Validates a client's JSON Schema, also for OpenAI's `strict: true`, with OpenAI's messages where known, in linear time. */
import { kindOf, quote, shorten, toArticle } from '../domain/explain.ts'
import { isObject } from '../domain/json.ts'

type Schema = Record<string, unknown>

export interface SchemaProblem {
  path: string[]
  /** The end of a sentence, with its period. It may quote the schema, shortened. */
  reason: string
}

interface SchemaNode {
  /** An object or a boolean by the time a rule sees it. */
  schema: unknown
  parent: SchemaNode | null
  /** Path from the parent, such as `['properties', 'name']`; from the root if only a reference leads here. */
  keys: readonly string[]
  depth: number
}

export const isRoot = ({ parent, keys }: SchemaNode) => parent === null && keys.length === 0

/** An additional check of each subschema; returns the problem or null. */
export type SchemaRule = (schema: Schema | boolean, node: SchemaNode) => string | null

/** Far more than clients send. Providers enforce the limits of strict mode. */
const MAX_SUBSCHEMAS = 20_000
const MAX_DEPTH = 100

export function checkSchema(root: unknown, ...rules: SchemaRule[]): SchemaProblem | null {
  const nodes: SchemaNode[] = [{ schema: root, parent: null, keys: [], depth: 0 }]
  const named = new Map<string, unknown>()
  let pending: { from: SchemaNode; reference: string }[] = []
  const jumps: [from: SchemaNode, to: SchemaNode][] = []

  const visit = (node: SchemaNode): string | null => {
    const { schema } = node
    if (nodes.length > MAX_SUBSCHEMAS) return `more than ${MAX_SUBSCHEMAS} subschemas.`
    if (node.depth > MAX_DEPTH) return `schemas are nested more than ${MAX_DEPTH} levels deep.`
    if (typeof schema !== 'boolean') {
      if (!isObject(schema)) return `a schema is required to be an object, but got ${toArticle(kindOf(schema))}.`
      const depth = node.depth + 1
      const add = (below: unknown, keys: string[]) => {
        // One too many is enough to detect it.
        if (nodes.length <= MAX_SUBSCHEMAS) nodes.push({ schema: below, parent: node, keys, depth })
      }
      const reason = checkKeywords(schema, add)
      if (reason) return reason
      if (typeof schema.$id === 'string') named.set(schema.$id, schema)
      if (typeof schema.$anchor === 'string') named.set(`#${schema.$anchor}`, schema)
      if (typeof schema.$ref === 'string') pending.push({ from: node, reference: schema.$ref })
    }
    for (const rule of rules) {
      const reason = rule(schema, node)
      if (reason) return reason
    }
    return null
  }

  /** Runs once the tree is known; reference targets outside it are schemas, too. */
  const follow = (): SchemaProblem | null => {
    const known = new Map(nodes.map((node) => [node.schema, node]))
    for (const { from, reference } of pending) {
      const target = toTarget(root, reference, named)
      if (!target || (!isObject(target.schema) && typeof target.schema !== 'boolean')) {
        return problemOf(from, `reference to component ${quote(reference)} which was not found in the schema.`)
      }
      let to = known.get(target.schema)
      if (!to) {
        to = { schema: target.schema, parent: null, keys: target.keys, depth: 0 }
        known.set(target.schema, to)
        nodes.push(to)
      }
      jumps.push([from, to])
    }
    pending = []
    return null
  }

  // The list grows while it is read.
  for (const node of nodes) {
    const reason = visit(node)
    if (reason) return problemOf(node, reason)
    const lost = pending.length > 0 && node === nodes.at(-1) ? follow() : null
    if (lost) return lost
  }
  const endless = jumps.length > 0 ? findEndless(nodes, jumps) : null
  return endless && problemOf(endless, 'the reference is infinitely recursive.')
}

function problemOf(node: SchemaNode, reason: string): SchemaProblem {
  const path: string[][] = []
  for (let at: SchemaNode | null = node; at; at = at.parent) path.push([...at.keys])
  return { path: path.reverse().flat(), reason }
}

function toTarget(root: unknown, reference: string, named: ReadonlyMap<string, unknown>) {
  if (reference !== '#' && !reference.startsWith('#/')) return { schema: named.get(reference), keys: [reference] }
  const keys = reference.split('/').slice(1).map(toKey)
  let schema = root
  for (const key of keys) {
    if (typeof schema !== 'object' || schema === null || !Object.hasOwn(schema, key)) return null
    schema = Reflect.get(schema, key)
  }
  return { schema, keys }
}

/** Decodes a step of a JSON pointer (RFC 6901) in a URI fragment. */
function toKey(step: string): string {
  let plain = step
  try {
    plain = decodeURIComponent(step)
  } catch {
    // An invalid `%` is literal.
  }
  return plain.replaceAll('~1', '/').replaceAll('~0', '~')
}

/** Finds a schema that applies itself to the same value without end; recursion into parts of a value is fine. */
function findEndless(nodes: readonly SchemaNode[], jumps: readonly [SchemaNode, SchemaNode][]): SchemaNode | null {
  const edges = [...jumps]
  for (const node of nodes) if (node.parent && IN_PLACE.has(node.keys[0] ?? '')) edges.push([node.parent, node])
  const exits = Map.groupBy(edges, ([from]) => from)
  const entries = Map.groupBy(edges, ([, to]) => to)

  const left = new Map([...exits].map(([node, ends]) => [node, ends.length]))
  const done = nodes.filter((node) => !left.has(node))
  for (const node of done) {
    for (const [from] of entries.get(node) ?? []) {
      const rest = (left.get(from) ?? 0) - 1
      left.set(from, rest)
      if (rest === 0) done.push(from)
    }
  }
  return jumps.find(([from, to]) => left.get(from) && left.get(to))?.[0] ?? null
}

const toSet = (words: string): ReadonlySet<string> => new Set(words.split(' '))

const IN_PLACE = toSet('allOf anyOf dependencies dependentSchemas else if not oneOf then')

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
  [
    'maxContains maxItems maxLength maxProperties minContains minItems minLength minProperties',
    isCount,
    'a non-negative integer',
  ],
  ['exclusiveMaximum exclusiveMinimum maximum minimum', Number.isFinite, 'a number'],
  ['multipleOf', isStep, 'a number greater than 0'],
  ['uniqueItems', isBoolean, 'a boolean'],
  ['$ref format pattern', isText, 'a string'],
  ['required', isNames, 'an array of strings'],
  ['allOf anyOf enum oneOf prefixItems', isList, 'a non-empty array'],
  ['dependentRequired', isObject, 'an object'],
  [[...HOLD_BY_NAME].join(' '), isObject, 'an object'],
]
const SHAPE_OF = new Map(
  SHAPES.flatMap(([names, holds, expected]) => names.split(' ').map((name) => [name, { holds, expected }] as const)),
)

/** Checks a schema's keywords and passes nested schemas to `each`. Returns the first problem, or null. */
function checkKeywords(schema: Schema, each: (below: unknown, keys: string[]) => void): string | null {
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

export const allows = ({ type }: Schema, name: string) => type === name || (Array.isArray(type) && type.includes(name))

const FORBIDDEN = new Set(
  (
    'allOf oneOf not if then else dependentRequired dependentSchemas dependencies minLength maxLength patternProperties ' +
    'propertyNames minProperties maxProperties prefixItems additionalItems contains minContains maxContains uniqueItems ' +
    'unevaluatedItems unevaluatedProperties $dynamicRef $recursiveRef'
  ).split(' '),
)

const INSTEAD_OF_TYPE = ['$ref', 'anyOf', 'enum', 'const']

/** The first thing that strict mode doesn't allow, or null; checks `rules`, too. */
export const checkStrict = (schema: unknown, ...rules: SchemaRule[]): SchemaProblem | null =>
  checkSchema(schema, checkWords, checkShape, ...rules)

/** The same for engines with grammars, which support every keyword. */
export const checkStrictShape = (schema: unknown, ...rules: SchemaRule[]): SchemaProblem | null =>
  checkSchema(schema, (each, node) => (findForbidden(each) ? null : checkShape(each, node)), ...rules)

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
  return isObject(items) ? null : "'items' is required to be a single schema."
}

const namesOf = (value: unknown): string[] => (isObject(value) ? Object.keys(value) : [])

const MAX_PATTERN_CHARS = 100_000

/** Patterns of schemas that we validate with must be regular expressions of this runtime. */
export function createPatternRule(): SchemaRule {
  let chars = 0
  return (schema) => {
    if (typeof schema === 'boolean') return null
    const patterns = namesOf(schema.patternProperties)
    if (typeof schema.pattern === 'string') patterns.push(schema.pattern)
    for (const pattern of patterns) chars += pattern.length
    if (chars > MAX_PATTERN_CHARS) return `${chars} characters of patterns exceeds limit of ${MAX_PATTERN_CHARS}.`
    const wrong = patterns.find((pattern) => !isPattern(pattern))
    return wrong === undefined ? null : `'${shorten(wrong)}' is not a 'regex'.`
  }
}

/** More is valid without the Unicode flag: `\-` is common in other languages' patterns. */
const isPattern = (pattern: string) => ['', 'u'].some((flag) => isRegExp(pattern, flag))

function isRegExp(pattern: string, flag: string): boolean {
  try {
    new RegExp(pattern, flag)
    return true
  } catch {
    return false
  }
}
