/**
 * The rules of OpenAI's API across the fields of a request and between its messages. Called by `validate.ts` for requests
 * whose fields are each right, and from which nulls and empty lists of tools are gone already.
 */
import { GatewayError } from '../../domain/error.ts'
import type { AssistantMessage, CanonicalRequest, Message, ToolChoice } from '../../domain/request.ts'
import { quote, shorten } from '../../validation/explain-words.ts'

/** Returns the first rule that the request breaks, or null. */
export function checkRules(body: CanonicalRequest): GatewayError | null {
  return checkCalling(body) ?? checkFields(body) ?? checkConversation(body.messages)
}

function checkCalling(body: CanonicalRequest): GatewayError | null {
  const { functions, function_call: call, tools, tool_choice: choice } = body
  if (body.max_tokens !== undefined && body.max_completion_tokens !== undefined)
    return invalid(
      "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
      'max_tokens',
      'invalid_parameter_combination',
    )
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

/** Reads `{type: 'function', function: {name}}`; allowed tools may be anything. */
function toolNameOf(tool: Record<string, unknown>): unknown {
  const named = tool.type === 'custom' ? tool.custom : tool.function
  return typeof named === 'object' && named !== null && 'name' in named ? named.name : undefined
}

/** The calls of one assistant message, by id: whether a tool message has answered. */
type Calls = Map<string, boolean>

/** Every tool call is answered before the next turn, every tool message answers one, an assistant says something. */
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
    "Invalid value for 'content': expected text parts alone, or one refusal part and nothing beside it.",
    param,
    'invalid_value',
  )
}

/** Answers that refuse, speak or only think have no content, and clients send them back as they got them. */
const hasOtherWords = ({ refusal, audio, reasoning, reasoning_content }: AssistantMessage) =>
  typeof refusal === 'string' || Boolean(audio) || Boolean(reasoning) || Boolean(reasoning_content)

const MOST_NAMED = 20

function checkAnswered(calls: Calls): GatewayError | null {
  const open = [...calls].filter(([, answered]) => !answered).map(([id]) => shorten(id))
  if (open.length === 0) return null
  const more = open.length > MOST_NAMED ? `, and ${open.length - MOST_NAMED} more` : ''
  return invalid(
    `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${open.slice(0, MOST_NAMED).join(', ')}${more}`,
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

const invalid = (message: string, param: string, code: string | null = null) =>
  new GatewayError('invalid_request', message, { code, param })
