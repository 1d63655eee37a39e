/**
 * Reads a client's JSON Schema and says what is wrong with it as a schema, whatever it is for; `strict-schema.ts` adds
 * the rules of strict mode. Pure. Sees every subschema once and follows a reference without entering its target again,
 * so that any schema costs what its length costs.
 */
import { isObject, kindOf, quote, toArticle } from './explain-words.ts'
import { checkKeywords, IN_PLACE, type Schema } from './json-schema-words.ts'

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
