/**
 * Checks a chat request before anything is dispatched: its fields by the schema, then the rules across fields, messages
 * and JSON Schemas; the first one that is broken answers, with the sentence, code and `param` that OpenAI's API has for it.
 * The compiled checker decides; the slow explanation runs only for a request that is refused anyway.
 */
import type { TObject } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import { allow, type Decision, GatewayError, refuse } from '../../domain/error.ts'
import { type CanonicalRequest, RequestSchema } from '../../domain/request.ts'
import { explain } from '../../validation/explain.ts'
import { checkRules } from './rules.ts'
import { checkSchemas } from './schemas.ts'

/** Compiled on first need: that takes as long as the rest of a start. */
let checker: TypeCheck<typeof RequestSchema> | null = null

/** Returns the request without what counts as absent, or its refusal. */
export function validate(body: unknown): Decision<CanonicalRequest> {
  checker ??= TypeCompiler.Compile(RequestSchema)
  if (!checker.Check(body)) return refuse(toRefusal(body))
  const request = strip(body, REQUEST)
  const hasSchemas = request.tools || request.functions || request.response_format
  const broken = checkRules(request) ?? (hasSchemas ? checkSchemas(request) : null)
  return broken ? refuse(broken) : allow(request)
}

function toRefusal(body: unknown): GatewayError {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return new GatewayError(
      'invalid_request',
      'We could not parse the JSON body of your request: the API expects one JSON object, such as {"model": …, "messages": […]}.',
    )
  }
  if (!('model' in body) || body.model === null || body.model === '') {
    return new GatewayError('invalid_request', 'you must provide a model parameter')
  }
  const [problem] = explain(RequestSchema, body)
  if (!problem) return new GatewayError('invalid_request', 'This request is not a chat completion request.')
  return new GatewayError('invalid_request', problem.message, { code: problem.code, param: problem.path })
}

/** Of an object in a request: which fields are left out where they say nothing (null: any), and which hold more such objects. */
interface Level {
  names: ReadonlySet<string> | null
  into: ReadonlyMap<string, Level>
}

/** Fields that the schema knows to their depths, which no JSON Schema is. */
const DEPTHS = new Map<string, Level>()
const DEEP: Level = { names: null, into: DEPTHS }
for (const name of 'content image_url file stream_options response_format json_schema prediction audio'.split(' '))
  DEPTHS.set(name, DEEP)
for (const name of 'prompt_cache_options moderation policy web_search_options user_location approximate'.split(' '))
  DEPTHS.set(name, DEEP)

const { properties } = RequestSchema
const OF_MESSAGE = properties.messages.items.anyOf.flatMap(({ properties, required = [] }: TObject) =>
  // Null is a value of `content`.
  Object.keys(properties).filter((name) => name !== 'content' && !required.includes(name)),
)
const MESSAGE: Level = { names: new Set(OF_MESSAGE), into: new Map(Object.entries({ content: DEEP, audio: DEEP })) }
const TOOL_BODY: Level = { names: new Set(['description', 'parameters', 'strict', 'format']), into: new Map() }
const TOOL: Level = { names: new Set(), into: new Map(Object.entries({ function: TOOL_BODY, custom: TOOL_BODY })) }
const REQUEST: Level = {
  names: new Set(Object.keys(properties)),
  into: new Map([...DEPTHS].filter(([name]) => name in properties)).set('messages', MESSAGE).set('tools', TOOL),
}
const EMPTY_LISTS = new Set(['tools', 'tool_calls'])

/**
 * Takes out of a valid request what counts as absent: nulls of fields that the schema knows, and empty lists of tools and
 * tool calls, which many clients send and many upstreams refuse. What holds none of them is not copied: nearly every
 * request is its own result.
 */
function strip<T>(value: T, level: Level): T {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const items = value.map((item) => strip(item, level))
    return items.some((item, index) => item !== value[index]) ? (items as T) : value
  }
  let kept: Record<string, unknown> | null = null
  for (const name in value) {
    const held: unknown = value[name]
    const into = level.into.get(name)
    const left = saysNothing(name, held, level) ? undefined : into ? strip(held, into) : held
    if (left === held) continue
    kept ??= Object.fromEntries(Object.entries(value))
    if (left === undefined) delete kept[name]
    else kept[name] = left
  }
  return kept === null ? value : (kept as T)
}

function saysNothing(name: string, held: unknown, { names }: Level): boolean {
  if (held === null) return names === null || names.has(name)
  return Array.isArray(held) && held.length === 0 && EMPTY_LISTS.has(name) && names?.has(name) === true
}
