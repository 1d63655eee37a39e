/**
 * Reads a client's JSON Schema and says what is wrong with it as a schema, whatever it is for; `strict-schema.ts` adds
 * the rules of strict mode. Pure. Sees every subschema once and follows a reference without entering its target again,
 * so that any schema costs what its length costs.
 */
import { isObject, kindOf, quote, toArticle } from './explain-words.ts'

export type Schema = Record<string, unknown>

export interface SchemaProblem {
  /** The keywords and names that lead to the schema at fault. */
  path: string[]
  /** The end of a sentence, with its full stop. It may quote the schema, shortened. */
  reason: string
}

export interface SchemaNode {
  /** A schema is an object or a boolean; a rule is only asked about those. */
  schema: unknown
  parent: SchemaNode | null
  /** From the parent: `['properties', 'name']`; from the root, where only a reference leads here. */
  keys: readonly string[]
  /** How many schemas it stands in. */
  depth: number
}

/** Whether it is the whole schema. */
export const isRoot = ({ parent, keys }: SchemaNode) => parent === null && keys.length === 0

/** What else each subschema is held to. Returns what is wrong with it, or null. */
export type SchemaRule = (schema: Schema | boolean, node: SchemaNode) => string | null

/** Far beyond what anybody writes; strict schemas have limits of their own. */
const MAX_SUBSCHEMAS = 20_000
const MAX_DEPTH = 100

/** Returns the first thing that is wrong with a schema, outer schemas first, or null. */
export function checkSchema(root: unknown, ...rules: SchemaRule[]): SchemaProblem | null {
  const nodes: SchemaNode[] = [{ schema: root, parent: null, keys: [], depth: 0 }]
  const named = new Map<string, unknown>()
  /** Nodes with a `$ref` that is not followed yet. */
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
        // The one too many is enough to know that there are too many.
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

  /** Once all that the tree holds is known: what a reference leads to beyond it is a schema too. */
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
  return endless && problemOf(endless, 'the reference leads back to itself without an end.')
}

function problemOf(node: SchemaNode, reason: string): SchemaProblem {
  const path: string[][] = []
  for (let at: SchemaNode | null = node; at; at = at.parent) path.push([...at.keys])
  return { path: path.reverse().flat(), reason }
}

/** Finds what a `$ref` means: a pointer into the schema, or the name that a subschema gave itself. */
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

/** Reads one step of a JSON pointer (RFC 6901) in a URI fragment. */
function toKey(step: string): string {
  let plain = step
  try {
    plain = decodeURIComponent(step)
  } catch {
    // A `%` that encodes nothing is one.
  }
  return plain.replaceAll('~1', '/').replaceAll('~0', '~')
}

/**
 * Finds a schema that judges a value by judging the same value by itself, which never ends. References that lead back
 * through a part of the value are recursion, and right. Takes away, again and again, what leads nowhere.
 */
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

/** Keywords whose schemas judge the very value that they stand beside, not a part of it. */
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

/** Whether a schema names the type among those that it takes. */
export const allows = ({ type }: Schema, name: string) => type === name || (Array.isArray(type) && type.includes(name))
