/**
 * What the messages of a request must be to each other, as in OpenAI's API: every tool call is answered before the
 * next turn, every tool message answers one, an assistant says something. One pass, whatever the number of messages.
 */
import { GatewayError } from '../../domain/error.ts'
import type { AssistantMessage, Message } from '../../domain/request.ts'
import { quote, shorten } from '../../validation/explain-words.ts'

/** The calls of one assistant message, by id: whether a tool message has answered. */
type Calls = Map<string, boolean>

/** Returns the first thing that is wrong between the messages, or null. */
export function checkConversation(messages: readonly Message[]): GatewayError | null {
  let calls: Calls | null = null
  for (const [index, message] of messages.entries()) {
    if (message.role === 'tool') {
      if (!calls) return withoutCall(index)
      if (!calls.has(message.tool_call_id)) return toAnotherCall(index, message.tool_call_id)
      calls.set(message.tool_call_id, true)
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
    return new GatewayError('invalid_request', "Invalid value for 'content': expected a string, got null.", { param })
  }
  if (typeof content === 'string' || content.length === 1) return null
  if (!content.some((part) => part.type === 'refusal')) return null
  return new GatewayError(
    'invalid_request',
    "Invalid value for 'content': expected text parts alone, or one refusal part and nothing beside it.",
    { code: 'invalid_value', param },
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
  return new GatewayError(
    'invalid_request',
    `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${open.slice(0, MOST_NAMED).join(', ')}${more}`,
    { param: 'messages' },
  )
}

const withoutCall = (index: number) =>
  new GatewayError(
    'invalid_request',
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
    { param: `messages.[${index}].role` },
  )

const toAnotherCall = (index: number, id: string) =>
  new GatewayError(
    'invalid_request',
    `Invalid parameter: 'tool_call_id' of ${quote(id)} not found in 'tool_calls' of previous message.`,
    { param: `messages.[${index}].tool_call_id` },
  )
