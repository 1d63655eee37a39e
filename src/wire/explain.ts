/**
 * Says what is wrong with a value that a TypeBox schema refuses, in the sentences and codes of the contract's
 * section 5. `chat/validate.ts` runs it on a request that the compiled checker refused, `catalog/file.ts` on a
 * catalogue. Pure; it must agree with TypeBox: a value has a problem here exactly when `Value.Check` refuses it.
 */
import { Kind, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import {
  bound,
  invalidType,
  invalidValue,
  isLiteral,
  isNull,
  isObject,
  isPlainObject,
  missing,
  type Problem,
  quote,
  type Segments,
  toAlternatives,
  unexplained,
  unknown,
} from './explain-words.ts'

export type { Problem }

type Problems = Generator<Problem, void, undefined>

/** Returns the first problem of the value, or every one of them with `all`. Empty where the schema accepts it. */
export function explain(schema: TSchema, value: unknown, options: { all?: boolean } = {}): Problem[] {
  const found = walk(schema, value, [])
  if (options.all) return [...found]
  const first = found.next()
  return first.done ? [] : [first.value]
}

function* walk(schema: TSchema, value: unknown, at: Segments): Problems {
  const alternatives = toAlternatives(schema)
  if (value === null && alternatives.some(isNull)) return
  const branches = alternatives.filter((branch) => !isNull(branch))
  const only = branches[0]
  if (branches.length === 1 && only !== undefined && !isLiteral(only)) return yield* walkOne(only, value, at)
  if (branches.some((branch) => isLiteral(branch) && branch.const === value)) return

  const fitting = branches.filter((branch) => !isLiteral(branch) && accepts(branch, value))
  const literals = branches.filter(isLiteral)
  if (fitting.length === 0) {
    if (literals.some((literal) => typeof literal.const === typeof value))
      return yield invalidValue(literals, value, at)
    return yield invalidType(branches, value, at)
  }
  if (fitting.length === 1 && fitting[0] !== undefined) return yield* walkOne(fitting[0], value, at)
  const tag = sharedTag(fitting)
  if (tag !== null && isObject(value)) return yield* walkTagged(fitting, tag, value, at)
  if (fitting.some((branch) => Value.Check(branch, value))) return
  yield* walkOne(fitting[0] ?? schema, value, at)
}

/** Follows the one branch that the discriminating property names. */
function* walkTagged(branches: TSchema[], tag: string, value: Record<string, unknown>, at: Segments): Problems {
  const chosen = value[tag]
  const path = [...at, tag]
  if (chosen === undefined) return yield missing(path)
  const branch = branches.find((candidate) => propertyOf(candidate, tag)?.const === chosen)
  if (branch) return yield* walkOne(branch, value, at)
  const literals = branches.flatMap((candidate) => propertyOf(candidate, tag) ?? [])
  if (literals.some((literal) => typeof literal.const === typeof chosen))
    return yield invalidValue(literals, chosen, path)
  yield invalidType(literals, chosen, path)
}

function* walkOne(schema: TSchema, value: unknown, at: Segments): Problems {
  if (!accepts(schema, value)) return yield invalidType([schema], value, at)
  const kind = schema[Kind]
  if (kind === 'String' && typeof value === 'string') return yield* walkString(schema, value, at)
  if ((kind === 'Number' || kind === 'Integer') && typeof value === 'number')
    return yield* walkNumber(schema, value, at)
  if (kind === 'Array' && Array.isArray(value)) return yield* walkArray(schema, value, at)
  if (kind === 'Object' && isObject(value)) return yield* walkObject(schema, value, at)
  if (kind === 'Record' && isObject(value)) return yield* walkRecord(schema, value, at)
  yield* walkRest(schema, value, at)
}

/** Whatever the walk has no words for is still refused, so that it never contradicts TypeBox. */
function* walkRest(schema: TSchema, value: unknown, at: Segments): Problems {
  if (!Value.Check(schema, value)) yield unexplained(at)
}

function* walkString(schema: TSchema, value: string, at: Segments): Problems {
  const length = value.length
  const got = length === 0 ? 'an empty string' : `a string with length ${length}`
  if (length < (schema.minLength ?? 0)) {
    const what = length === 0 ? 'empty string' : 'string too short'
    return yield bound(at, 'string_below_min_length', what, `a string with minimum length ${schema.minLength}`, got)
  }
  if (length > (schema.maxLength ?? Infinity)) {
    const expected = `a string with maximum length ${schema.maxLength}`
    return yield bound(at, 'string_above_max_length', 'string too long', expected, got)
  }
  if (typeof schema.pattern === 'string' && !new RegExp(schema.pattern).test(value)) {
    const expected = `a string that matches the pattern '${schema.pattern}'`
    return yield bound(at, 'invalid_value', 'string does not match pattern', expected, quote(value))
  }
  yield* walkRest(schema, value, at)
}

function* walkNumber(schema: TSchema, value: number, at: Segments): Problems {
  const kind = schema[Kind] === 'Integer' ? 'integer' : 'decimal'
  const limits = [
    ['below', 'minimum', '>=', schema.minimum, (limit: number) => value >= limit],
    ['above', 'maximum', '<=', schema.maximum, (limit: number) => value <= limit],
    ['below', 'minimum', '>', schema.exclusiveMinimum, (limit: number) => value > limit],
    ['above', 'maximum', '<', schema.exclusiveMaximum, (limit: number) => value < limit],
  ] as const
  for (const [side, word, sign, limit, holds] of limits) {
    if (limit === undefined || holds(limit)) continue
    const code = `${kind}_${side}_${side === 'below' ? 'min' : 'max'}_value`
    return yield bound(at, code, `${kind} ${side} ${word} value`, `a value ${sign} ${limit}`, String(value))
  }
  yield* walkRest(schema, value, at)
}

function* walkArray(schema: TSchema, value: unknown[], at: Segments): Problems {
  const length = value.length
  const got = length === 0 ? 'an empty array' : `an array with length ${length}`
  if (length < (schema.minItems ?? 0)) {
    const [code, what] = length === 0 ? ['empty_array', 'empty array'] : ['array_below_min_length', 'array too short']
    return yield bound(at, code, what, `an array with minimum length ${schema.minItems}`, got)
  }
  if (length > (schema.maxItems ?? Infinity)) {
    const expected = `an array with maximum length ${schema.maxItems}`
    return yield bound(at, 'array_above_max_length', 'array too long', expected, got)
  }
  for (const [index, item] of value.entries()) yield* walk(schema.items, item, [...at, index])
  if (schema.uniqueItems || schema.contains) yield* walkRest(schema, value, at)
}

function* walkObject(schema: TSchema, value: Record<string, unknown>, at: Segments): Problems {
  yield* walkSize(schema, value, at)
  const required: string[] = schema.required ?? []
  for (const [name, property] of Object.entries<TSchema>(schema.properties)) {
    if (value[name] !== undefined) yield* walk(property, value[name], [...at, name])
    else if (required.includes(name)) yield missing([...at, name])
  }
  if (schema.additionalProperties === undefined || schema.additionalProperties === true) return
  for (const name of Object.keys(value)) {
    if (Object.hasOwn(schema.properties, name)) continue
    if (schema.additionalProperties === false) yield unknown([...at, name])
    else yield* walk(schema.additionalProperties, value[name], [...at, name])
  }
}

function* walkRecord(schema: TSchema, value: Record<string, unknown>, at: Segments): Problems {
  yield* walkSize(schema, value, at)
  for (const [pattern, item] of Object.entries<TSchema>(schema.patternProperties)) {
    const names = new RegExp(pattern)
    for (const [name, held] of Object.entries(value)) {
      if (names.test(name)) yield* walk(item, held, [...at, name])
      else if (schema.additionalProperties === false) yield unknown([...at, name])
      else if (typeof schema.additionalProperties === 'object')
        yield* walk(schema.additionalProperties, held, [...at, name])
    }
  }
}

function* walkSize(schema: TSchema, value: Record<string, unknown>, at: Segments): Problems {
  const size = Object.keys(value).length
  const got = `an object with ${size} properties`
  if (size > (schema.maxProperties ?? Infinity)) {
    const expected = `an object with at most ${schema.maxProperties} properties`
    yield bound(at, 'object_above_max_properties', 'too many properties', expected, got)
  }
  if (size < (schema.minProperties ?? 0)) {
    const expected = `an object with at least ${schema.minProperties} properties`
    yield bound(at, 'object_below_min_properties', 'too few properties', expected, got)
  }
}

/** Whether a value has the branch's JSON type; its bounds and contents are looked at afterwards. */
function accepts(schema: TSchema, value: unknown): boolean {
  switch (schema[Kind]) {
    case 'String':
      return typeof value === 'string'
    case 'Number':
      return Number.isFinite(value)
    case 'Integer':
      return Number.isInteger(value)
    case 'Boolean':
      return typeof value === 'boolean'
    case 'Array':
      return Array.isArray(value)
    case 'Object':
      return isObject(value)
    case 'Record':
      return isPlainObject(value)
    default:
      return true
  }
}

const propertyOf = (branch: TSchema, name: string): TSchema | undefined => branch.properties?.[name]

/** The property by which object branches tell themselves apart (`type`, `role`): a literal in each of them. */
function sharedTag(branches: TSchema[]): string | null {
  const names = Object.keys(branches[0]?.properties ?? {})
  const isTag = (name: string) =>
    branches.every((branch) => branch.required?.includes(name) && isLiteral(propertyOf(branch, name)))
  return names.find(isTag) ?? null
}
