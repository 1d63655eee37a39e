/**
 * Says what is wrong with a value that a TypeBox schema refuses, in the sentences and codes that OpenAI's API has for it.
 * `formats/chat/validate.ts` runs it on a request that the compiled checker refused, `catalog/file.ts` on a catalogue.
 * Pure. The errors are TypeBox's own, so that a value has a problem here exactly when `Value.Check` refuses it; of a union
 * that refuses a value, the branch that was meant is looked for.
 */
import { Kind, type TSchema } from '@sinclair/typebox'
import { Errors, ValueErrorType } from '@sinclair/typebox/errors'
import {
  brokenBound,
  invalidType,
  invalidValue,
  isLiteral,
  isNull,
  isObject,
  missing,
  type Problem,
  type Segments,
  toAlternatives,
  unexplained,
  unknown,
} from './explain-words.ts'

export type { Problem }

/** Of TypeBox's errors; `path` is a JSON pointer (RFC 6901) from the whole value. */
interface Refusal {
  type: ValueErrorType
  schema: TSchema
  path: string
  value: unknown
}

/** A value of another JSON type, or none of the values that there are. */
const MISTYPED = new Set([
  ValueErrorType.Array,
  ValueErrorType.Boolean,
  ValueErrorType.Integer,
  ValueErrorType.Literal,
  ValueErrorType.Null,
  ValueErrorType.Number,
  ValueErrorType.Object,
  ValueErrorType.String,
  ValueErrorType.Union,
])

/** Returns the first problem of the value, or every one of them with `all`. Empty where the schema accepts it. */
export function explain(schema: TSchema, value: unknown, { all = false } = {}): Problem[] {
  const problems: Problem[] = []
  const told = new Set<string>()
  for (const refusal of refusals(schema, value, '')) {
    // What is wrong with 129 tools is that they are 129.
    if (isWithin(told, refusal.path)) continue
    told.add(refusal.path)
    problems.push(toProblem(refusal, toSegments(refusal.path, value)))
    if (!all) break
  }
  return problems
}

/** In the order of the schema's properties, and only then fields that are not known. */
function* refusals(schema: TSchema, value: unknown, at: string): Generator<Refusal> {
  const last: Refusal[] = []
  for (const error of Errors(schema, value)) {
    const refusal = { type: error.type, schema: error.schema, path: at + error.path, value: error.value }
    // What is required and missing mostly comes again at its place, as `undefined`.
    if (LAST.has(error.type)) last.push(refusal)
    else if (error.type === ValueErrorType.Union) yield* ofMeantBranch(refusal)
    else yield refusal
  }
  yield* last
}

const LAST = new Set([ValueErrorType.ObjectRequiredProperty, ValueErrorType.ObjectAdditionalProperties])

/** What is wrong with a value of a union by the branch that it was meant for: the one that its tag names, or that has its type. */
function* ofMeantBranch(refusal: Refusal): Generator<Refusal> {
  const { schema, value, path } = refusal
  const branches = toAlternatives(schema)
  const tag = isObject(value) ? sharedTag(branches.filter(isObjectSchema)) : null
  if (tag === null || !isObject(value)) {
    const meant = branches.find((branch) => hasType(branch, value))
    if (meant) yield* refusals(meant, value, path)
    else yield refusal
    return
  }
  const tags = branches.map((branch) => branch.properties?.[tag]).filter(isLiteral)
  const meant = branches.find((branch) => branch.properties?.[tag].const === value[tag])
  if (meant) yield* refusals(meant, value, path)
  else yield { ...refusal, schema: { ...schema, anyOf: tags }, path: `${path}/${tag}`, value: value[tag] }
}

const isObjectSchema = (schema: TSchema) => schema[Kind] === 'Object' || schema[Kind] === 'Record'

const isTextual = (schema: TSchema | undefined) => isLiteral(schema) || schema?.[Kind] === 'String'

/** Whether a branch that refuses a value does so for what is in it, not for its type. */
function hasType(branch: TSchema, value: unknown): boolean {
  const first = Errors(branch, value).First()
  return first !== undefined && !(first.path === '' && MISTYPED.has(first.type))
}

/**
 * The property by which several object branches tell themselves apart (`type`, `role`): a literal in each of them, or a text
 * in one that stands for all others.
 */
function sharedTag(branches: TSchema[]): string | null {
  const isTag = (name: string) =>
    branches.some(({ properties }) => isLiteral(properties?.[name])) &&
    branches.every(({ properties, required }) => isTextual(properties?.[name]) && required?.includes(name))
  return branches.length > 1 ? (Object.keys(branches[0]?.properties ?? {}).find(isTag) ?? null) : null
}

function toProblem({ type, schema, value }: Refusal, at: Segments): Problem {
  if (value === undefined) return missing(at)
  if (type === ValueErrorType.ObjectAdditionalProperties) return unknown(at)
  if (!MISTYPED.has(type)) return brokenBound(type, schema, value, at) ?? unexplained(at)
  const branches = toAlternatives(schema).filter((branch) => !isNull(branch))
  const literals = branches.filter(isLiteral)
  const isOther = literals.some((literal) => typeof literal.const === typeof value)
  return isOther ? invalidValue(literals, value, at) : invalidType(branches, value, at)
}

/** Whether a path is among others, or inside of one of them. */
function isWithin(paths: ReadonlySet<string>, path: string): boolean {
  for (let end = path.length; end > 0; end = path.lastIndexOf('/', end - 1))
    if (paths.has(path.slice(0, end))) return true
  return paths.has('')
}

/** Reads a pointer; a step into an array is a number. */
function toSegments(pointer: string, value: unknown): Segments {
  const segments: Segments = []
  let inside = value
  for (const step of pointer.split('/').slice(1)) {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~')
    segments.push(Array.isArray(inside) ? Number(name) : name)
    inside = typeof inside === 'object' && inside !== null ? Reflect.get(inside, name) : undefined
  }
  return segments
}
