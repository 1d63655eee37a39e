/**
 * A request to `/v1/messages`, or one that only asks how many tokens it has: held against its schema, and as a canonical one. What only
 * Anthropic's API has, such as `context_management`, `container`, `mcp_servers` and whatever the header `anthropic-beta` names, is left
 * out. Pure.
 */
import { type Decision, GatewayError } from '../../domain/error.ts'
import { explain } from '../../domain/explain.ts'
import { asObject, asText } from '../../domain/json.ts'
import type { CanonicalRequest, ToolChoice } from '../../domain/request.ts'
import { UNREQUESTED_REASONING } from '../../domain/task.ts'
import { toThinkingWish } from '../../upstreams/dialects/thinking.ts'
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

/** Anthropic's API counts a request with `compaction` as if it had none. */
export const validateCount = (body: unknown): Decision<CountBody> => checkThread(body) ?? checkCount(body)

/**
 * Refuses a conversation that the provider would keep: all keys are one account there, and a turn without its history would be
 * answered as if there were none. With these details, Anthropic's client libraries send the whole conversation instead
 * (`thread_unsupported_request`). It comes before the schema, because a turn that goes on with a thread may have no messages.
 */
function checkThread(body: unknown): GatewayError | null {
  if ((asObject(body)?.thread ?? null) === null) return null
  return new GatewayError(
    'invalid_request',
    "thread: Message threads are not supported: Tollgate keeps no conversations. Send the whole conversation without 'thread'.",
    { param: 'thread', details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] } },
  )
}

/** An ordinary answer would be taken for the summary. */
function checkCompaction(body: unknown): GatewayError | null {
  if ((asObject(body)?.compaction ?? null) === null) return null
  return invalid(
    'compaction',
    "Compaction requests are not supported. Ask for a summary in an ordinary message, without 'compaction'.",
  )
}

function toRefusal(body: unknown, of: 'MessagesSchema' | 'CountSchema'): GatewayError {
  if (asObject(body) === null)
    return new GatewayError('invalid_request', 'The body of a request has to be one JSON object.')
  // Only here, because to make the schema takes a tenth of a start.
  const schemas = require('./schema.ts') as typeof import('./schema.ts')
  const [problem] = explain(schemas[of], body)
  if (!problem) return new GatewayError('invalid_request', 'This is not a request for a message.')
  const path = problem.segments.length <= MAX_SEGMENTS ? problem.path.replace(/\[(\d+)\]/g, '.$1') : problem.path
  return invalid(path, problem.message)
}

const MAX_SEGMENTS = 16

type Tool = NonNullable<MessagesBody['tools']>[number]

/** The fields of a chat request that say the same. */
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

/** The schema is as it came. `strict` is more at OpenAI than at Anthropic: it is said where the schema holds to that. */
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
  return () => (left-- > 0 ? null : 'it is too long.')
}

/** A choice of a tool that was left out leaves it to the model. */
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

/** Claude Code names an account and a session in it, as a JSON text. */
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
    // Upstreams that take four of them refuse more in their own words: to stop elsewhere than asked would be another answer.
    ...(stops && stops.length > 0 ? { stop: stops } : {}),
    ...(user ? { user: user.slice(0, MAX_USER_CHARS) } : {}),
    ...(tier ? { service_tier: tier } : {}),
    ...(body.stream ? { stream: true } : {}),
    ...withoutNulls({ top_k }),
    // Where data may not go is not ours to forget: routing refuses what it cannot promise.
    ...(inference_geo && inference_geo !== 'global' ? { inference_geo } : {}),
  }
}

/** What of a request a model reads, and how it is to think about it. */
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
 * Tells an effort by the name that most upstreams have for it. A budget stays beside it, for those that count one. Where the
 * model decides how much to think it does so as for `high`, which is what Anthropic's API takes for granted. A client that does not
 * turn thinking on reads no thoughts, as there.
 */
function toThinking({ thinking, output_config: config }: CountBody): object {
  const effort = config?.effort
  if (!thinking) return { [UNREQUESTED_REASONING]: true, ...(effort ? { reasoning_effort: effort } : {}) }
  if (thinking.type === 'disabled') return { [UNREQUESTED_REASONING]: true, thinking: { type: 'disabled' } }
  if (thinking.type === 'enabled') {
    const { isOn, effort: amount } = toThinkingWish({ model: '', messages: [], ...{ thinking } })
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
  // Answers may be checked against it by the gateway itself, so its patterns have to work here.
  const problem = checkSchema(schema, createPatternRule())
  if (problem) return invalid(path, `${problem.path.join('.').slice(0, 500)}: ${problem.reason}`)
  return {
    type: 'json_schema',
    json_schema: { name: 'answer', schema, ...(checkStrict(schema) === null ? { strict: true } : {}) },
  }
}
