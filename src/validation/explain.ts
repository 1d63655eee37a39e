/**
 * Says what is wrong with a value that a TypeBox schema refuses, in the sentences and codes of the contract's
 * section 5. `formats/chat/validate.ts` runs it on a request that the compiled checker refused, `catalog/file.ts` on a
 * catalogue. Pure; it must agree with TypeBox: a value has a problem here exactly when `Value.Check` refuses it.
 */
import { Kind, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { accepts, checkBounds } from './explain-bounds.ts'
import {
  invalidType,
  invalidValue,
  isLiteral,
  isNull,
  isObject,
  longName,
  missing,
  type Problem,
  type Segments,
  toAlternatives,
  unexplained,
  unknown,
} from './explain-words.ts'

export type { Problem }

/** Where the walk puts what it finds. Every loop stops once it is full: a body may hold 100,000 messages. */
interface Findings {
  add(problem: Problem): undefined
  full: boolean
}

/** Returns the first problem of the value, or every one of them with `all`. Empty where the schema accepts it. */
export function explain(schema: TSchema, value: unknown, options: { all?: boolean } = {}): Problem[] {
  const problems: Problem[] = []
  const out: Findings = {
    full: false,
    add(problem) {
      // A step that finds two problems adds both; only the first was asked for.
      if (!out.full) problems.push(problem)
      out.full = options.all !== true
    },
  }
  walk(schema, value, [], out)
  return problems
}

function walk(schema: TSchema, value: unknown, at: Segments, out: Findings): undefined {
  const { nullable, branches, literals, others, tag } = toChoice(schema)
  if (value === null && nullable) return
  const [only] = others
  if (only !== undefined && branches.length === 1) return walkOne(only, value, at, out)
  if (literals.some((literal) => literal.const === value)) return
  if (tag !== null && isObject(value)) return walkTagged(others.filter(isObjectSchema), tag, value, at, out)

  const fitting = others.filter((branch) => accepts(branch, value))
  if (fitting.length === 0) {
    if (literals.some((literal) => typeof literal.const === typeof value))
      return out.add(invalidValue(literals, value, at))
    return out.add(invalidType(branches, value, at))
  }
  if (fitting.length === 1 && fitting[0] !== undefined) return walkOne(fitting[0], value, at, out)
  if (fitting.some((branch) => Value.Check(branch, value))) return
  walkOne(fitting[0] ?? schema, value, at, out)
}

/** A schema as the alternatives that it offers. */
interface Choice {
  nullable: boolean
  /** All but null. */
  branches: TSchema[]
  literals: TSchema[]
  others: TSchema[]
  /** What tells its objects apart, where it has several and nothing else would take an object. */
  tag: string | null
}

/** Taking a union apart costs more than walking it, and a body may hold 100,000 messages. Schemas never change. */
const choices = new WeakMap<TSchema, Choice>()

function toChoice(schema: TSchema): Choice {
  const known = choices.get(schema)
  if (known) return known
  const alternatives = toAlternatives(schema)
  const branches = alternatives.filter((branch) => !isNull(branch))
  const others = branches.filter((branch) => !isLiteral(branch))
  const takers = others.filter((branch) => accepts(branch, {}))
  const choice = {
    nullable: branches.length < alternatives.length,
    branches,
    literals: branches.filter(isLiteral),
    others,
    tag: takers.length > 1 && takers.every(isObjectSchema) ? sharedTag(takers) : null,
  }
  choices.set(schema, choice)
  return choice
}

/** Follows the one branch that the discriminating property names. */
function walkTagged(
  branches: TSchema[],
  tag: string,
  value: Record<string, unknown>,
  at: Segments,
  out: Findings,
): undefined {
  const chosen = value[tag]
  const path = [...at, tag]
  if (chosen === undefined) return out.add(missing(path))
  const branch = branches.find((candidate) => propertyOf(candidate, tag)?.const === chosen)
  if (branch) return walkOne(branch, value, at, out)
  const literals = branches.flatMap((candidate) => propertyOf(candidate, tag) ?? [])
  if (literals.some((literal) => typeof literal.const === typeof chosen))
    return out.add(invalidValue(literals, chosen, path))
  out.add(invalidType(literals, chosen, path))
}

function walkOne(schema: TSchema, value: unknown, at: Segments, out: Findings): undefined {
  if (!accepts(schema, value)) return out.add(invalidType([schema], value, at))
  const problem = checkBounds(schema, value, at)
  if (problem) out.add(problem)
  const kind = schema[Kind]
  if (kind === 'Array' && Array.isArray(value)) {
    // What is wrong with 129 tools is that they are 129.
    if (!problem) walkArray(schema, value, at, out)
  } else if (kind === 'Object' && isObject(value)) walkObject(schema, value, at, out)
  else if (kind === 'Record' && isObject(value)) walkRecord(schema, value, at, out)
  else if (!problem && !BOUNDED.has(kind) && !Value.Check(schema, value)) out.add(unexplained(at))
}

/** Kinds whose rules `checkBounds` knows; any other is still refused, so that the walk never contradicts TypeBox. */
const BOUNDED = new Set(['String', 'Number', 'Integer', 'Boolean', 'Unknown', 'Any'])

function walkArray(schema: TSchema, value: unknown[], at: Segments, out: Findings): void {
  for (const [index, item] of value.entries()) {
    if (out.full) return
    walk(schema.items, item, [...at, index], out)
  }
}

function walkObject(schema: TSchema, value: Record<string, unknown>, at: Segments, out: Findings): void {
  const required: string[] = schema.required ?? []
  for (const [name, property] of Object.entries<TSchema>(schema.properties)) {
    if (out.full) return
    if (value[name] !== undefined) walk(property, value[name], [...at, name], out)
    else if (required.includes(name)) out.add(missing([...at, name]))
  }
  if (schema.additionalProperties === undefined || schema.additionalProperties === true) return
  for (const name of Object.keys(value)) {
    if (out.full) return
    if (Object.hasOwn(schema.properties, name)) continue
    if (schema.additionalProperties === false) out.add(unknown([...at, name]))
    else walk(schema.additionalProperties, value[name], [...at, name], out)
  }
}

function walkRecord(schema: TSchema, value: Record<string, unknown>, at: Segments, out: Findings): void {
  const [pattern = '', item] = Object.entries<TSchema>(schema.patternProperties)[0] ?? []
  const names = new RegExp(pattern)
  for (const [name, held] of Object.entries(value)) {
    if (out.full) return
    const inside = names.test(name) ? item : schema.additionalProperties
    if (inside === false) out.add(tooLong(schema, name, at) ?? unknown([...at, name]))
    else if (typeof inside === 'object') walk(inside, held, [...at, name], out)
  }
}

/** What is wrong with a name that the record does not take, where its schema says how long one may be. */
function tooLong({ maxNameLength: most }: TSchema, name: string, at: Segments): Problem | null {
  return typeof most === 'number' && name.length > most ? longName(at, name, most) : null
}

const isObjectSchema = (schema: TSchema) => schema[Kind] === 'Object'
const propertyOf = (branch: TSchema, name: string): TSchema | undefined => branch.properties?.[name]

/** The property by which object branches tell themselves apart (`type`, `role`): a literal in each of them. */
function sharedTag(branches: TSchema[]): string | null {
  const isTag = (name: string) =>
    branches.every((branch) => isLiteral(propertyOf(branch, name)) && branch.required?.includes(name))
  for (const name in branches[0]?.properties) if (isTag(name)) return name
  return null
}
