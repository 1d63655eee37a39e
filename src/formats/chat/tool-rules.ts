/**
 * The rules of OpenAI's API about tools: between the fields that tell of them, and between a message that calls some and
 * those that answer it. Called by `validate.ts` for requests that use tools. Pure.
 */
import type { GatewayError } from '../../domain/error.ts'
import type { CanonicalRequest, ToolChoice } from '../../domain/request.ts'
import { quote, shorten } from '../../validation/explain-words.ts'
import { invalid } from './refusal.ts'

/** What is said about tools and functions goes together, and what has to be called is among them. */
export function checkCalling(body: CanonicalRequest): GatewayError | null {
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

/** Reads `{type: 'function', function: {name}}`; allowed tools may be anything. */
function toolNameOf(tool: Record<string, unknown>): unknown {
  const named = tool.type === 'custom' ? tool.custom : tool.function
  return typeof named === 'object' && named !== null && 'name' in named ? named.name : undefined
}

/** The calls of one assistant message, by id: whether a tool message has answered. */
export type Calls = Map<string, boolean>

const MOST_NAMED = 20

export function checkAnswered(calls: Calls): GatewayError | null {
  const open = [...calls].filter(([, answered]) => !answered).map(([id]) => shorten(id))
  if (open.length === 0) return null
  const more = open.length > MOST_NAMED ? `, and ${open.length - MOST_NAMED} more` : ''
  return invalid(
    `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${open.slice(0, MOST_NAMED).join(', ')}${more}`,
    'messages',
  )
}

export function checkAnswer(id: string, calls: Calls | null, index: number): GatewayError | null {
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
