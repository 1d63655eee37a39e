/**
 * The JSON Schemas of a request, checked before anything is dispatched: those of tools and functions, and the one of
 * `response_format`. Here are the sentences, codes and params of OpenAI's API; the rules are in
 * `validation/strict-schema.ts` and `validation/json-schema.ts`.
 */
import type { GatewayError } from '../../domain/error.ts'
import type { CanonicalRequest, JsonSchemaFormat } from '../../domain/request.ts'
import { shorten } from '../../validation/explain.ts'
import {
  allows,
  checkSchema,
  checkStrict,
  checkStrictShape,
  createPatternRule,
  isRoot,
  notObject,
  type SchemaProblem,
  type SchemaRule,
} from '../../validation/json-schema.ts'
import { invalid } from '../checked-body.ts'

/** Returns the refusal of the first schema that is wrong for everybody, or null. */
export const checkSchemas = (body: CanonicalRequest): GatewayError | null => check(body, checkStrictShape)

/** Returns the refusal of the first schema in which something stands that strict mode of OpenAI's API does not allow, or null. */
export function findBeyondStrict(body: CanonicalRequest): GatewayError | null {
  const { tools, response_format: format } = body
  const hasStrict =
    tools?.some((tool) => tool.type === 'function' && tool.function.strict) ||
    (format?.type === 'json_schema' && format.json_schema.strict)
  return hasStrict ? check(body, checkStrict) : null
}

type CheckStrict = typeof checkStrict

function check(
  { functions, tools, response_format: format }: CanonicalRequest,
  ofStrict: CheckStrict,
): GatewayError | null {
  const budget = createBudget()
  const named = [
    ...(functions ?? []).map((called, index) => ({ ...called, strict: false, at: `functions[${index}]` })),
    ...(tools ?? []).flatMap((tool, index) =>
      tool.type === 'function' ? { ...tool.function, at: `tools[${index}].function` } : [],
    ),
  ]
  for (const { name, parameters, strict, at } of named) {
    // Without parameters a function takes none.
    if (!parameters) continue
    const problem = strict ? ofStrict(parameters, budget) : checkSchema(parameters, budget, objectAtTheTop)
    if (problem) return invalid(toMessage('function', name, problem), `${at}.parameters`, 'invalid_function_parameters')
  }
  return format?.type === 'json_schema' ? checkFormat(format.json_schema, budget, ofStrict) : null
}

/** What the schemas of one request may be together: so many tools may be given that their sum has to be bounded. */
const MAX_SUBSCHEMAS = 50_000

function createBudget(): SchemaRule {
  let left = MAX_SUBSCHEMAS
  return () => (left-- > 0 ? null : `the schemas of this request have more than ${MAX_SUBSCHEMAS} subschemas.`)
}

/** What functions that are not strict are held to as well. */
const objectAtTheTop: SchemaRule = (schema, node) => {
  if (typeof schema === 'boolean' || !isRoot(node) || schema.type === undefined) return null
  if (!allows(schema, 'object')) return notObject(schema)
  return schema.properties === undefined ? 'object schema missing properties.' : null
}

function checkFormat(
  { name, schema, strict }: JsonSchemaFormat,
  budget: SchemaRule,
  ofStrict: CheckStrict,
): GatewayError | null {
  const param = 'response_format.json_schema.schema'
  if (!schema) return invalid(`Missing required parameter: '${param}'.`, param, 'missing_required_parameter')
  // Values may be checked against it by the gateway itself, so its patterns have to work here.
  const patterns = createPatternRule()
  const problem = strict ? ofStrict(schema, budget, patterns) : checkSchema(schema, budget, patterns)
  return problem && invalid(toMessage('response_format', name, problem), 'response_format')
}

const toMessage = (what: string, name: string, { path, reason }: SchemaProblem) =>
  `Invalid schema for ${what} '${name}': In context=${toTuple(path)}, ${reason}`

const MAX_CONTEXT_CHARS = 1_000

/** Writes a path as clients know it: `()`, `('items',)`, `('properties', 'name')`. */
function toTuple(path: readonly string[]): string {
  const words = path.map((key) => `'${shorten(key).replace(/['\\]/g, '\\$&')}'`)
  const inside = words.length === 1 ? `${words[0]},` : words.join(', ')
  if (inside.length <= MAX_CONTEXT_CHARS) return `(${inside})`
  return `(${inside.slice(0, MAX_CONTEXT_CHARS).toWellFormed()}…)`
}
