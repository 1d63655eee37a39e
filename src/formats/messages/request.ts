/**
 * Validates `/v1/messages` and token counting requests and makes them canonical. Anthropic-only features such as `context_management` and
 * those of `anthropic-beta` are dropped.
 */
import { type Decision, GatewayError } from '../../domain/error.ts'
import { explain } from '../../domain/explain.ts'
import { asObject, asText } from '../../domain/json.ts'
import type { CanonicalRequest, ToolChoice } from '../../domain/request.ts'
import { UNREQUESTED_REASONING } from '../../domain/task.ts'
import { toReasoningRequest } from '../../upstreams/dialects/reasoning.ts'
import { createBodyCheck, withoutNulls } from '../checked-body.ts'
import { countChecker, messagesChecker } from '../checker.macro.ts' with { type: 'macro' }
import { checkSchema, checkStrict, createPatternRule } from '../json-schema.ts'
import { toMark, toMessages } from './conversation.ts'
import { invalid } from './errors.ts'
import type { CountBody, MessagesBody } from './schema.ts'

const checkMessages = createBodyCheck<MessagesBody>(messagesChecker(), (body) => toRefusal(body, 'MessagesSchema'))
const checkCount = createBodyCheck<CountBody>(countChecker(), (body) => toRefusal(body, 'CountSchema'))

export const validateMessages = (body: unknown): Decision<MessagesBody> =>
  checkThread(body) ?? checkCompaction(body) ?? checkMessages(body)

/** Anthropic ignores `compaction` when counting. */
export const validateCount = (body: unknown): Decision<CountBody> => checkThread(body) ?? checkCount(body)

/**
 * Refuses threads, which the provider would store: all keys share one account there. With these details, Anthropic's client libraries send
 * the whole conversation instead. Runs before the schema, since such a turn may have no messages.
 */
function checkThread(body: unknown): GatewayError | null {
  if ((asObject(body)?.thread ?? null) === null) return null
  return new GatewayError(
    'invalid_request',
    "thread: Message threads are not supported: Tollgate does not store conversations. Send the whole conversation without 'thread'.",
    { param: 'thread', details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] } },
  )
}

/** A normal response would be taken for the summary. */
function checkCompaction(body: unknown): GatewayError | null {
  if ((asObject(body)?.compaction ?? null) === null) return null
  return invalid(
    'compaction',
    "Compaction requests are not supported. Request a summary in a normal message, without 'compaction'.",
  )
}

function toRefusal(body: unknown, of: 'MessagesSchema' | 'CountSchema'): GatewayError {
  if (asObject(body) === null) return new GatewayError('invalid_request', 'The request body must be a JSON object.')
  // Loaded only here, because creating the schema takes a tenth of startup.
  const schemas = require('./schema.ts') as typeof import('./schema.ts')
  const [problem] = explain(schemas[of], body)
  if (!problem) return new GatewayError('invalid_request', 'Invalid Messages request.')
  const path = problem.segments.length <= MAX_SEGMENTS ? problem.path.replace(/\[(\d+)\]/g, '.$1') : problem.path
  return invalid(path, problem.message)
}

const MAX_SEGMENTS = 16

type Tool = NonNullable<MessagesBody['tools']>[number]

function toTools(body: Pick<MessagesBody, 'tools' | 'tool_choice'>): Decision<Partial<CanonicalRequest>> {
  const tools: ReturnType<typeof toFunction>[] = []
  for (const [index, tool] of (body.tools ?? []).entries()) {
    if (tool.type && tool.type !== 'custom') continue
    if (!tool.name) return invalid(`tools.${index}.name`, 'Field required')
    tools.push(toFunction(tool, tool.name))
  }
  const search = body.tools?.find(({ type }) => type?.startsWith('web_search_'))
  return {
    ...(tools.length > 0 ? { tools, ...toChoice(body, tools) } : {}),
    ...(search ? { web_search_options: toSearch(search) } : {}),
  }
}

/** Keeps the schema. OpenAI's `strict` requires more than Anthropic's, so it is set only if the schema complies. */
function toFunction(tool: Tool, name: string) {
  const { description, input_schema: parameters, strict } = tool
  const isStrict = strict === true && parameters && checkStrict(parameters, createBudget()) === null
  return {
    type: 'function' as const,
    function: {
      name,
      ...(description ? { description } : {}),
      ...(parameters ? { parameters } : {}),
      ...(isStrict ? { strict: true } : {}),
    },
    ...toMark(tool),
  }
}

const MAX_SUBSCHEMAS = 10_000

function createBudget() {
  let left = MAX_SUBSCHEMAS
  return () => (left-- > 0 ? null : 'too long.')
}

function toChoice(
  { tool_choice: choice }: Pick<MessagesBody, 'tool_choice'>,
  tools: readonly { function: { name: string } }[],
): Partial<CanonicalRequest> {
  const chosen = toChosen(choice?.type, choice?.name, tools)
  return {
    ...(chosen ? { tool_choice: chosen } : {}),
    ...(choice?.disable_parallel_tool_use === true ? { parallel_tool_calls: false } : {}),
  }
}

function toChosen(
  type: string | undefined,
  name: string | null | undefined,
  tools: readonly { function: { name: string } }[],
): ToolChoice | null {
  if (type === 'auto' || type === 'none') return type
  if (type === 'any') return 'required'
  if (type !== 'tool' || !name || !tools.some((tool) => tool.function.name === name)) return null
  return { type: 'function', function: { name } }
}

function toSearch({ user_location: at }: Tool): NonNullable<CanonicalRequest['web_search_options']> {
  if (!at) return {}
  const approximate: Record<string, string> = {}
  for (const name of ['country', 'region', 'city', 'timezone']) {
    const value = asText(at[name])
    if (value !== '') approximate[name] = value
  }
  return { user_location: { type: 'approximate', approximate } }
}

/** Claude Code sends an account and a session in it, as JSON text. */
const MAX_USER_CHARS = 256

const TIERS: Readonly<Record<string, 'auto' | 'default'>> = { auto: 'auto', standard_only: 'default' }

export function toCanonical(body: MessagesBody): Decision<CanonicalRequest> {
  const prompt = toPromptOnly(body)
  if (prompt instanceof GatewayError) return prompt
  const { stop_sequences: stops, top_k, inference_geo } = body
  const user = body.metadata?.user_id
  const tier = TIERS[body.service_tier ?? '']
  return {
    ...prompt,
    max_tokens: body.max_tokens,
    ...withoutNulls({ temperature: body.temperature, top_p: body.top_p }),
    // Truncating the list would change the response. Upstreams that accept only four refuse more themselves.
    ...(stops && stops.length > 0 ? { stop: stops } : {}),
    ...(user ? { user: user.slice(0, MAX_USER_CHARS) } : {}),
    ...(tier ? { service_tier: tier } : {}),
    ...(body.stream ? { stream: true } : {}),
    ...withoutNulls({ top_k }),
    // A data location must not be dropped; routing refuses what it can't guarantee.
    ...(inference_geo && inference_geo !== 'global' ? { inference_geo } : {}),
  }
}

export function toPromptOnly(body: CountBody): Decision<CanonicalRequest> {
  const messages = toMessages(body)
  if (messages instanceof GatewayError) return messages
  const tools = toTools(body)
  if (tools instanceof GatewayError) return tools
  const format = toFormat(body)
  if (format instanceof GatewayError) return format
  const { cache_control } = body
  return {
    model: body.model,
    messages,
    ...tools,
    ...toThinking(body),
    ...(format ? { response_format: format } : {}),
    ...withoutNulls({ cache_control }),
  }
}

/**
 * Sets the effort by its most common name and keeps a token budget. Adaptive thinking is `high`, Anthropic's default; without `thinking`
 * clients get no reasoning, as at Anthropic.
 */
function toThinking({ thinking, output_config: config }: CountBody): object {
  const effort = config?.effort
  if (!thinking) return { [UNREQUESTED_REASONING]: true, ...(effort ? { reasoning_effort: effort } : {}) }
  if (thinking.type === 'disabled') return { [UNREQUESTED_REASONING]: true, thinking: { type: 'disabled' } }
  if (thinking.type === 'enabled') {
    const { isOn, effort: amount } = toReasoningRequest({ model: '', messages: [], ...{ thinking } })
    return { thinking, ...(isOn ? { reasoning_effort: effort ?? amount ?? 'high' } : {}) }
  }
  const isHidden = thinking.display === 'omitted'
  return { reasoning_effort: effort ?? 'high', ...(isHidden ? { thinking } : {}) }
}

function toFormat(body: CountBody): Decision<CanonicalRequest['response_format'] | null> {
  const format = body.output_config?.format ?? body.output_format
  if (format?.type !== 'json_schema') return null
  const path = body.output_config?.format ? 'output_config.format.schema' : 'output_format.schema'
  const { schema } = format
  if (!schema) return invalid(path, 'Field required')
  // The gateway itself may validate with it, so patterns must work here.
  const problem = checkSchema(schema, createPatternRule())
  if (problem) return invalid(path, `${problem.path.join('.').slice(0, 500)}: ${problem.reason}`)
  return {
    type: 'json_schema',
    json_schema: { name: 'answer', schema, ...(checkStrict(schema) === null ? { strict: true } : {}) },
  }
}
