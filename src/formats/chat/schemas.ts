/**
 * The JSON Schemas of a request, checked before anything is dispatched: those of tools and functions, and the one of
 * `response_format`. Here are the sentences, codes and params of OpenAI's API; the rules are in
 * `validation/strict-schema.ts` and `validation/json-schema.ts`.
 */
import { GatewayError } from '../../domain/error.ts'
import type { CanonicalRequest } from '../../domain/request.ts'
import { shorten } from '../../validation/explain-words.ts'
import { allows, checkSchema, isRoot, type SchemaProblem, type SchemaRule } from '../../validation/json-schema.ts'
import { checkStrict, createPatternRule, notObject } from '../../validation/strict-schema.ts'

/** Returns the refusal of the first schema that is wrong, or null. */
export function checkSchemas(body: CanonicalRequest): GatewayError | null {
  const budget = createBudget()
  return checkFunctions(body, budget) ?? checkTools(body, budget) ?? checkFormat(body, budget)
}

/** What the schemas of one request may be together: so many tools may be given that their sum has to be bounded. */
const MAX_SUBSCHEMAS = 50_000

function createBudget(): SchemaRule {
  let left = MAX_SUBSCHEMAS
  return () => (left-- > 0 ? null : `the schemas of this request have more than ${MAX_SUBSCHEMAS} subschemas.`)
}

function checkFunctions({ functions }: CanonicalRequest, budget: SchemaRule): GatewayError | null {
  for (const [index, { name, parameters }] of functions?.entries() ?? []) {
    const problem = parameters && checkSchema(parameters, budget, objectAtTheTop)
    if (problem) return invalidFunction(name, problem, `functions[${index}].parameters`)
  }
  return null
}

function checkTools({ tools }: CanonicalRequest, budget: SchemaRule): GatewayError | null {
  for (const [index, tool] of tools?.entries() ?? []) {
    if (tool.type !== 'function') continue
    const { name, parameters, strict } = tool.function
    // Without parameters a function takes none.
    if (!parameters) continue
    const problem = strict ? checkStrict(parameters, budget) : checkSchema(parameters, budget, objectAtTheTop)
    if (problem) return invalidFunction(name, problem, `tools[${index}].function.parameters`)
  }
  return null
}

/** What functions that are not strict are held to as well. */
const objectAtTheTop: SchemaRule = (schema, node) => {
  if (typeof schema === 'boolean' || !isRoot(node) || schema.type === undefined) return null
  if (!allows(schema, 'object')) return notObject(schema)
  return schema.properties === undefined ? 'object schema missing properties.' : null
}

function checkFormat({ response_format: format }: CanonicalRequest, budget: SchemaRule): GatewayError | null {
  if (format?.type !== 'json_schema') return null
  const { name, schema, strict } = format.json_schema
  if (!schema) return missingSchema()
  // Values may be checked against it by the gateway itself, so its patterns have to work here.
  const patterns = createPatternRule()
  const problem = strict ? checkStrict(schema, budget, patterns) : checkSchema(schema, budget, patterns)
  return (
    problem &&
    new GatewayError('invalid_request', toMessage('response_format', name, problem), { param: 'response_format' })
  )
}

function missingSchema(): GatewayError {
  const param = 'response_format.json_schema.schema'
  return new GatewayError('invalid_request', `Missing required parameter: '${param}'.`, {
    code: 'missing_required_parameter',
    param,
  })
}

const invalidFunction = (name: string, problem: SchemaProblem, param: string) =>
  new GatewayError('invalid_request', toMessage('function', name, problem), {
    code: 'invalid_function_parameters',
    param,
  })

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
