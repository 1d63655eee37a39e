/**
 * Validates a chat request: fields, then rules across fields, messages and JSON Schemas. Reports the first problem with OpenAI's message,
 * code and `param`.
 */
import { type Decision, GatewayError } from '../../domain/error.ts'
import { quote, shorten } from '../../domain/explain.ts'
import { isMiswritten, NULLABLE_OF_MESSAGES, REQUEST_FIELDS } from '../../domain/fields.ts'
import { asObject } from '../../domain/json.ts'
import type { AssistantMessage, CanonicalRequest, JsonSchemaFormat, Message, ToolChoice } from '../../domain/request.ts'
import { PART_TYPES } from '../../domain/task.ts'
import { checkModel, createBodyCheck, invalid, notAnObject, toSchemaRefusal } from '../checked-body.ts'
import { chatChecker } from '../checker.macro.ts' with { type: 'macro' }
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
} from '../json-schema.ts'

const checkBody = createBodyCheck<CanonicalRequest>(chatChecker(), (body) => {
  const given = asObject(body)
  if (given === null) return notAnObject('{"model": …, "messages": […]}')
  // Loaded only here, because creating the schema takes a tenth of startup.
  const { RequestSchema } = require('../../domain/request.ts') as typeof import('../../domain/request.ts')
  return checkModel(given) ?? toSchemaRefusal(RequestSchema, given, 'Invalid chat completion request.')
})

/** Returns the request without fields that count as absent, or its refusal. */
export function validate(body: unknown): Decision<CanonicalRequest> {
  const checked = checkBody(body)
  if (checked instanceof GatewayError) return checked
  const request = strip(checked, REQUEST)
  return checkRules(request) ?? request
}

/** The first broken rule across fields or messages, or null. Fields were validated, and nulls and empty tool lists removed. */
function checkRules(body: CanonicalRequest): GatewayError | null {
  if (body.max_tokens !== undefined && body.max_completion_tokens !== undefined)
    return invalid(
      "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
      'max_tokens',
      'invalid_parameter_combination',
    )
  const { tools, functions, function_call: call, tool_choice: choice, parallel_tool_calls: parallel } = body
  const usesTools = (tools ?? call ?? choice ?? parallel) !== undefined
  const broken = (usesTools ? checkCalling(body) : null) ?? checkFields(body) ?? checkConversation(body.messages)
  return broken ?? (tools || functions || body.response_format ? checkSchemas(body) : null)
}

function checkFields(body: CanonicalRequest): GatewayError | null {
  if (body.top_logprobs !== undefined && body.logprobs !== true)
    return invalid("The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.", 'top_logprobs')
  if (body.stream_options !== undefined && body.stream !== true)
    return invalid("The 'stream_options' parameter is only allowed when 'stream' is enabled.", 'stream_options')
  const speaks = body.modalities?.includes('audio') === true
  if (speaks && body.audio === undefined)
    return invalid("Missing required parameter: 'audio'.", 'audio', 'missing_required_parameter')
  if (!speaks && body.audio !== undefined)
    return invalid("Invalid value for 'audio': 'audio' is only allowed when 'modalities' includes 'audio'.", 'audio')
  return null
}

/** Every tool call has a result before the next turn, every tool message has a call, and assistants have content. */
function checkConversation(messages: readonly Message[]): GatewayError | null {
  let calls: Calls | null = null
  for (const [index, message] of messages.entries()) {
    if (message.role === 'tool') {
      const answered = checkAnswer(message.tool_call_id, calls, index)
      if (answered) return answered
      calls?.set(message.tool_call_id, true)
      continue
    }
    const open = calls && checkAnswered(calls)
    if (open) return open
    calls = null
    if (message.role !== 'assistant') continue
    const empty = checkContent(message, index)
    if (empty) return empty
    if (message.tool_calls?.length) calls = new Map(message.tool_calls.map(({ id }) => [id, false]))
  }
  return calls && checkAnswered(calls)
}

function checkContent(message: AssistantMessage, index: number): GatewayError | null {
  const { content } = message
  const param = `messages.[${index}].content`
  if (content === undefined || content === null) {
    if (message.tool_calls?.length || message.function_call || hasOtherWords(message)) return null
    return invalid("Invalid value for 'content': expected a string, got null.", param)
  }
  if (typeof content === 'string' || content.length === 1) return null
  if (!content.some((part) => part.type === 'refusal')) return null
  return invalid(
    "Invalid value for 'content': expected text parts only, or a single refusal part.",
    param,
    'invalid_value',
  )
}

/** Refusals, audio, images and mere reasoning have no content, and clients send them back as received. */
const hasOtherWords = (message: AssistantMessage) =>
  typeof message.refusal === 'string' ||
  Boolean(message.audio) ||
  Boolean(message.reasoning) ||
  Boolean(message.reasoning_content) ||
  isFilled(message.reasoning_details) ||
  isFilled(message.images)

const isFilled = (list: unknown) => Array.isArray(list) && list.length > 0

/** Fields of an object that are removed if null or empty (`names`, or all if null), and nested objects. */
interface Level {
  names: ReadonlySet<string> | null
  into: ReadonlyMap<string, Level>
}

/** Fields fully described by the schema; JSON Schemas are not. */
const DEPTHS = new Map<string, Level>()
const DEEP: Level = { names: null, into: DEPTHS }
for (const name of 'content image_url file stream_options response_format json_schema prediction audio'.split(' '))
  DEPTHS.set(name, DEEP)
for (const name of 'prompt_cache_options moderation policy web_search_options user_location approximate'.split(' '))
  DEPTHS.set(name, DEEP)

// Null is a valid `content`.
const OF_MESSAGE = [...NULLABLE_OF_MESSAGES].filter((name) => name !== 'content')
const PART: Level = { names: null, into: DEPTHS }
const toLevel = (names: string[], into: Record<string, Level> = {}): Level => ({
  names: new Set(names),
  into: new Map(Object.entries(into)),
})
const CALLED = toLevel([])
const CALL = toLevel([], { function: CALLED, custom: CALLED })
const MESSAGE = toLevel(OF_MESSAGE, { content: PART, audio: DEEP, tool_calls: CALL, function_call: CALLED })
const TOOL_BODY = toLevel(['description', 'parameters', 'strict', 'format'])
const TOOL = toLevel([], { function: TOOL_BODY, custom: TOOL_BODY })
const REQUEST: Level = {
  names: REQUEST_FIELDS,
  into: new Map([...DEPTHS].filter(([name]) => REQUEST_FIELDS.has(name))).set('messages', MESSAGE).set('tools', TOOL),
}
const EMPTY_LISTS = new Set(['tools', 'tool_calls'])

/**
 * Removes values that count as absent: nulls of known fields, and empty lists of tools and calls, which many upstreams refuse. Also removes
 * misspellings of known fields. Copies only changed objects.
 */
function strip<T>(value: T, level: Level): T {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return stripAll(value, level) as T
  // Unknown part types keep their fields.
  if (level === PART && !PART_TYPES.has((value as { type?: unknown }).type)) return value
  let kept: Record<string, unknown> | null = null
  for (const name in value) {
    const held: unknown = value[name]
    const into = level.into.get(name)
    const isLeftOut = saysNothing(name, held, level) || (into === undefined && isMiswritten(name))
    const left = isLeftOut ? undefined : into ? strip(held, into) : held
    if (left === held) continue
    kept ??= Object.fromEntries(Object.entries(value))
    if (left === undefined) delete kept[name]
    else kept[name] = left
  }
  return kept === null ? value : (kept as T)
}

function stripAll(items: unknown[], level: Level): unknown[] {
  let kept = items
  for (let at = 0; at < items.length; at++) {
    const left = strip(items[at], level)
    if (left === items[at]) continue
    if (kept === items) kept = [...items]
    kept[at] = left
  }
  return kept
}

function saysNothing(name: string, held: unknown, { names }: Level): boolean {
  if (held === null) return names === null || names.has(name)
  return Array.isArray(held) && held.length === 0 && EMPTY_LISTS.has(name) && names?.has(name) === true
}

function checkCalling(body: CanonicalRequest): GatewayError | null {
  const { functions, function_call: call, tools, tool_choice: choice } = body
  if (call && !functions) return onlyWith('function_call', 'functions')
  if (call && typeof call !== 'string' && !functions?.some(({ name }) => name === call.name))
    return invalid(
      `Invalid value for 'function_call': no function named ${quote(call.name)} was specified in the 'functions' parameter.`,
      'function_call',
    )
  if (tools) return choice ? checkToolChoice(choice, tools) : null
  if (choice !== undefined) return onlyWith('tool_choice', 'tools')
  return body.parallel_tool_calls === undefined ? null : onlyWith('parallel_tool_calls', 'tools')
}

function checkToolChoice(choice: ToolChoice, tools: NonNullable<CanonicalRequest['tools']>): GatewayError | null {
  if (typeof choice === 'string') return null
  const known = new Set(tools.map((tool) => JSON.stringify([tool.type, toolNameOf(tool)])))
  const chosen = choice.type === 'allowed_tools' ? choice.allowed_tools.tools : [choice]
  for (const [index, tool] of chosen.entries()) {
    const name = toolNameOf(tool)
    if (typeof name !== 'string') {
      const param = `tool_choice.allowed_tools.tools[${index}].${tool.type === 'custom' ? 'custom' : 'function'}.name`
      return invalid(`Missing required parameter: '${param}'.`, param, 'missing_required_parameter')
    }
    if (known.has(JSON.stringify([tool.type, name]))) continue
    return invalid(`Tool choice ${quote(name)} not found in 'tools' parameter.`, 'tool_choice')
  }
  return null
}

/** Allowed tools may be anything. */
function toolNameOf(tool: Record<string, unknown>): unknown {
  const named = tool.type === 'custom' ? tool.custom : tool.function
  return typeof named === 'object' && named !== null && 'name' in named ? named.name : undefined
}

/** Calls of an assistant message by ID: true once answered. */
type Calls = Map<string, boolean>

const MAX_NAMED = 20

function checkAnswered(calls: Calls): GatewayError | null {
  const open = [...calls].filter(([, answered]) => !answered).map(([id]) => shorten(id))
  if (open.length === 0) return null
  const more = open.length > MAX_NAMED ? `, and ${open.length - MAX_NAMED} more` : ''
  return invalid(
    `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${open.slice(0, MAX_NAMED).join(', ')}${more}`,
    'messages',
  )
}

function checkAnswer(id: string, calls: Calls | null, index: number): GatewayError | null {
  if (!calls)
    return invalid(
      "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
      `messages.[${index}].role`,
    )
  if (calls.has(id)) return null
  return invalid(
    `Invalid parameter: 'tool_call_id' of ${quote(id)} not found in 'tool_calls' of previous message.`,
    `messages.[${index}].tool_call_id`,
  )
}

const onlyWith = (param: string, needed: string) =>
  invalid(`Invalid value for '${param}': '${param}' is only allowed when '${needed}' are specified.`, param)

/** The refusal of the first schema that is invalid for every model, or null. */
export const checkSchemas = (body: CanonicalRequest): GatewayError | null => check(body, checkStrictShape)

/** The refusal of the first schema that OpenAI's strict mode doesn't allow, or null. */
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
    // A function without parameters takes none.
    if (!parameters) continue
    const problem = strict ? ofStrict(parameters, budget) : checkSchema(parameters, budget, objectAtTheTop)
    if (problem) return invalid(toMessage('function', name, problem), `${at}.parameters`, 'invalid_function_parameters')
  }
  return format?.type === 'json_schema' ? checkFormat(format.json_schema, budget, ofStrict) : null
}

/** Limit for all schemas of a request together, since it may have many tools. */
const MAX_SUBSCHEMAS = 50_000

function createBudget(): SchemaRule {
  let left = MAX_SUBSCHEMAS
  return () => (left-- > 0 ? null : `the schemas of this request have more than ${MAX_SUBSCHEMAS} subschemas.`)
}

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
  // The gateway itself may validate with it, so patterns must work here.
  const patterns = createPatternRule()
  const problem = strict ? ofStrict(schema, budget, patterns) : checkSchema(schema, budget, patterns)
  return problem && invalid(toMessage('response_format', name, problem), 'response_format')
}

const toMessage = (what: string, name: string, { path, reason }: SchemaProblem) =>
  `Invalid schema for ${what} '${name}': In context=${toTuple(path)}, ${reason}`

const MAX_CONTEXT_CHARS = 1_000

/** A path in OpenAI's notation: `()`, `('items',)`, `('properties', 'name')`. */
function toTuple(path: readonly string[]): string {
  const words = path.map((key) => `'${shorten(key).replace(/['\\]/g, '\\$&')}'`)
  const inside = words.length === 1 ? `${words[0]},` : words.join(', ')
  if (inside.length <= MAX_CONTEXT_CHARS) return `(${inside})`
  return `(${inside.slice(0, MAX_CONTEXT_CHARS).toWellFormed()}…)`
}
