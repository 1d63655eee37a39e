/** Explains why a TypeBox schema rejects a value, in OpenAI's sentences and codes; for a union, by the branch that was probably meant. */
import { Kind, type TSchema } from '@sinclair/typebox'
import { Errors, ValueErrorType } from '@sinclair/typebox/errors'
import { isObject } from './json.ts'

export interface Problem {
  /** Such as `messages[0].content`; '' for the value itself. */
  path: string
  segments: (string | number)[]
  code: string
  /** May quote the value, shortened. */
  message: string
}

type Segments = (string | number)[]
const LONGEST_QUOTE = 100

const isNull = (schema: TSchema) => schema[Kind] === 'Null'
const isLiteral = (schema: TSchema | undefined) => schema?.[Kind] === 'Literal'

export function toAlternatives(schema: TSchema): TSchema[] {
  return schema[Kind] === 'Union' ? schema.anyOf.flatMap(toAlternatives) : [schema]
}

export function toPath(segments: readonly (string | number)[]): string {
  let path = ''
  for (const segment of segments) {
    if (typeof segment === 'number') path += `[${segment}]`
    // Field names may be of any length.
    else path += path === '' ? shorten(segment) : `.${shorten(segment)}`
  }
  return path
}

/** Never within a surrogate pair. */
export function shorten(text: string): string {
  return text.length <= LONGEST_QUOTE ? text : `${text.slice(0, LONGEST_QUOTE).toWellFormed()}…`
}

export function quote(value: unknown): string {
  return typeof value === 'string' ? `'${shorten(value)}'` : shorten(String(value))
}

/** `a`, `a or b`, `a, b, or c`. */
export function toList(words: string[], conjunction: 'and' | 'or'): string {
  const last = words.at(-1) ?? ''
  if (words.length < 3) return words.join(` ${conjunction} `)
  return `${words.slice(0, -1).join(', ')}, ${conjunction} ${last}`
}

/** Quoted values, numbers, and `null` take none. */
export function toArticle(noun: string): string {
  if (noun === 'null' || noun === 'undefined' || !/^[a-z]/.test(noun)) return noun
  return `${/^[aeiou]/.test(noun) ? 'an' : 'a'} ${noun}`
}

export function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  // `1e999` is JSON: Infinity.
  if (typeof value === 'number' && !Number.isFinite(value)) return 'number that is out of range'
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'decimal number'
  return typeof value
}

const NOUNS: Record<string, string> = {
  String: 'string',
  Number: 'decimal',
  Integer: 'integer',
  Boolean: 'boolean',
  Object: 'object',
  Record: 'object',
}

/** Such as `string`, `array of objects`, `'auto'`. */
function expectationOf(schema: TSchema): string {
  if (isLiteral(schema)) return quote(schema.const)
  if (schema[Kind] !== 'Array') return NOUNS[schema[Kind]] ?? 'value'
  const items = new Set(toAlternatives(schema.items).map(expectationOf))
  const [item] = items
  return items.size === 1 && item !== undefined && /^[a-z]+$/.test(item) ? `array of ${item}s` : 'array'
}

function problem(segments: Segments, code: string, message: string): Problem {
  return { path: toPath(segments), segments, code, message }
}

const unexplained = (at: Segments) => problem(at, 'invalid_value', `Invalid value${forPath(at)}.`)

const forPath = (at: Segments) => (at.length === 0 ? '' : ` for '${shorten(toPath(at))}'`)

const missing = (at: Segments) =>
  problem(at, 'missing_required_parameter', `Missing required parameter: '${shorten(toPath(at))}'.`)

const unknown = (at: Segments) => problem(at, 'unknown_parameter', `Unknown parameter: '${shorten(toPath(at))}'.`)

function invalidValue(literals: TSchema[], value: unknown, quotes: boolean, at: Segments): Problem {
  const supported = toList(literals.map(expectationOf), 'and')
  const what = quotes || typeof value !== 'string' ? `: ${quote(value)}` : ''
  return problem(at, 'invalid_value', `Invalid value${what}. Supported values are: ${supported}.`)
}

function invalidType(branches: TSchema[], value: unknown, at: Segments): Problem {
  const words = [...new Set(branches.map(expectationOf))]
  const first = toArticle(words[0] ?? '')
  const expected = words.length === 1 ? first : `one of ${toList([first, ...words.slice(1)], 'or')}`
  const got = toArticle(kindOf(value))
  return problem(at, 'invalid_type', `Invalid type${forPath(at)}: expected ${expected}, but got ${got} instead.`)
}

/** null if there is no sentence. */
function brokenBound({ type, schema, value }: Refusal, quotes: boolean, at: Segments): Problem | null {
  const where = at.length === 0 ? '' : ` '${shorten(toPath(at))}'`
  const say = (code: string, what: string, expected: string, got: string) =>
    problem(at, code, `Invalid${where}: ${what}. Expected ${expected}, but got ${got} instead.`)
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
      return say('invalid_value', 'string does not match pattern', expected, quotes ? quote(value) : 'another')
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

/** What a value must be, for an error that names its field: `must not be empty.`, `expected a value >= 1, but got 0 instead.` */
export function toRule({ message, path }: Problem): string {
  const text = message.replace(` for '${path}'`, '').replace(` '${path}'`, '')
  if (/^Invalid: empty (string|array)\./.test(text)) return 'must not be empty.'
  return text.replace(/^Invalid: [^.]+\. E/, 'e').replace(/^Invalid type: /, '')
}

/** `path`: JSON pointer (RFC 6901). */
interface Refusal {
  type: ValueErrorType
  schema: TSchema
  path: string
  value: unknown
}

/** Wrong type, or none of the allowed values. */
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

/**
 * The first problem, or `all`.
 * @param quotes false: never quote the value, which may be a misplaced secret.
 */
export function explain(schema: TSchema, value: unknown, { all = false, quotes = true } = {}): Problem[] {
  const problems: Problem[] = []
  const told = new Set<string>()
  for (const refusal of refusals(schema, value, '')) {
    // Of 129 tools, only the count is a problem.
    if (isWithin(told, refusal.path)) continue
    told.add(refusal.path)
    problems.push(toProblem(refusal, quotes, toSegments(refusal.path, value)))
    if (!all) break
  }
  return problems
}

/** In schema order, then unknown fields. */
function* refusals(schema: TSchema, value: unknown, at: string): Generator<Refusal> {
  const last: Refusal[] = []
  for (const error of Errors(schema, value)) {
    const refusal = { type: error.type, schema: error.schema, path: at + error.path, value: error.value }
    // A missing required field usually comes again at its place, as `undefined`.
    if (LAST.has(error.type)) last.push(refusal)
    else if (error.type === ValueErrorType.Union) yield* ofMeantBranch(refusal)
    else yield refusal
  }
  yield* last
}

const LAST = new Set([ValueErrorType.ObjectRequiredProperty, ValueErrorType.ObjectAdditionalProperties])

/** Problems of the branch with the value's tag, or else of its type. */
function* ofMeantBranch(refusal: Refusal): Generator<Refusal> {
  const { schema, value, path } = refusal
  const branches = toAlternatives(schema)
  const tag = isObject(value) ? sharedTag(branches.filter(isObjectSchema)) : null
  if (tag === null || !isObject(value)) {
    const able = branches.filter((branch) => hasType(branch, value))
    const meant = able.find((branch) => takesFirst(branch, value)) ?? able[0]
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

/** True if the branch accepts the type but not the content. */
function hasType(branch: TSchema, value: unknown): boolean {
  const first = Errors(branch, value).First()
  return first !== undefined && !(first.path === '' && MISTYPED.has(first.type))
}

/** Whether the branch accepts the first item's type, to tell arrays of different items apart. */
const takesFirst = (branch: TSchema, value: unknown): boolean =>
  !Array.isArray(value) ||
  branch[Kind] !== 'Array' ||
  toAlternatives(branch.items).some((item) => hasType(item, value[0]) || Errors(item, value[0]).First() === undefined)

/** `type` or `role`: a literal in each branch, or a string in one catch-all branch. */
function sharedTag(branches: TSchema[]): string | null {
  const isTag = (name: string) =>
    branches.some(({ properties }) => isLiteral(properties?.[name])) &&
    branches.every(({ properties, required }) => isTextual(properties?.[name]) && required?.includes(name))
  return branches.length > 1 ? (Object.keys(branches[0]?.properties ?? {}).find(isTag) ?? null) : null
}

function toProblem(refusal: Refusal, quotes: boolean, at: Segments): Problem {
  const { type, schema, value } = refusal
  if (value === undefined) return missing(at)
  if (type === ValueErrorType.ObjectAdditionalProperties) return unknown(at)
  if (!MISTYPED.has(type)) return brokenBound(refusal, quotes, at) ?? unexplained(at)
  const branches = toAlternatives(schema).filter((branch) => !isNull(branch))
  const literals = branches.filter(isLiteral)
  const isOther = literals.some((literal) => typeof literal.const === typeof value)
  return isOther ? invalidValue(literals, value, quotes, at) : invalidType(branches, value, at)
}

function isWithin(paths: ReadonlySet<string>, path: string): boolean {
  for (let end = path.length; end > 0; end = path.lastIndexOf('/', end - 1))
    if (paths.has(path.slice(0, end))) return true
  return paths.has('')
}

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
