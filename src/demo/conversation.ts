/**
 * How the demo model reads a request: what was asked last, what came besides text, which tools were called and have
 * answered since, whether it is to reason, and how many tokens all of it is. Pure.
 */
import type { CanonicalRequest, Message } from '../domain/request.ts'
import { count } from '../domain/text.ts'
import { countTokens, toTokens } from './tokens.ts'

/** What an image, a sound, a file or any other part counts, whatever its size: the demo model does not look into it. */
const TOKENS_PER_ATTACHMENT = 256

/** How much of a message is said back. */
const ECHOED_TOKENS = 200

const ATTACHMENTS = { image_url: 'image', input_audio: 'sound', file: 'file' }

/** Joins the text of a message: its text parts and its refusals. */
function textOf({ content }: Message): string {
  if (typeof content === 'string') return content
  return (content ?? [])
    .flatMap((part) => (part.type === 'text' ? part.text : part.type === 'refusal' ? part.refusal : []))
    .join(' ')
}

const lastOfUser = ({ messages }: CanonicalRequest) => messages.findLast(({ role }) => role === 'user')

/** Returns the text of the last user message. */
export function toAsked(body: CanonicalRequest): string {
  const last = lastOfUser(body)
  return last ? textOf(last) : ''
}

/** Returns what the tools at the end of the conversation answered; empty where somebody else spoke last. */
export function toResults({ messages }: CanonicalRequest): string[] {
  const before = messages.findLastIndex(({ role }) => role !== 'tool' && role !== 'function')
  return messages.slice(before + 1).map(textOf)
}

/** Returns the names of the tools that were called since the last user message. */
export function toCalled({ messages }: CanonicalRequest): Set<string> {
  const turn = messages.slice(messages.findLastIndex(({ role }) => role === 'user') + 1)
  return new Set(turn.flatMap((message) => callsOf(message).map(({ name }) => name)))
}

function callsOf(message: Message): { name: string; arguments: string }[] {
  if (message.role !== 'assistant') return []
  const calls = (message.tool_calls ?? []).map((call) =>
    call.type === 'function' ? call.function : { name: call.custom.name, arguments: call.custom.input },
  )
  return message.function_call ? [...calls, message.function_call] : calls
}

/** Says what came besides text in the last user message: `1 image and 2 files`, or null. */
export function toAttached(body: CanonicalRequest): string | null {
  const kinds = attachmentsOf(lastOfUser(body))
  const said = Object.entries(ATTACHMENTS).flatMap(([kind, name]) => {
    const found = kinds.filter((one) => one === kind).length
    return found === 0 ? [] : count(found, name)
  })
  return said.length === 0 ? null : new Intl.ListFormat('en-GB').format(said)
}

function attachmentsOf(message: Message | undefined): string[] {
  if (!Array.isArray(message?.content)) return []
  return message.content.map(({ type }) => type).filter((type) => type !== 'text' && type !== 'refusal')
}

/** Shortens a text to what is worth saying back. */
export function toEcho(text: string): string {
  const tokens = toTokens(text, ECHOED_TOKENS + 1)
  if (tokens.length <= ECHOED_TOKENS) return text
  return `${tokens.slice(0, ECHOED_TOKENS).join('')} … and ${countTokens(text) - ECHOED_TOKENS} more tokens`
}

/** Counts what the demo model reads: messages, attachments, and the tools and the schema that it was given. */
export function countPrompt(body: CanonicalRequest): number {
  const format = body.response_format?.type === 'json_schema' ? body.response_format : null
  const given = [body.tools, body.functions, format].filter((one) => one !== null && one !== undefined)
  const texts = [
    ...given.map((one) => JSON.stringify(one)),
    ...body.messages.flatMap((message) => [
      textOf(message),
      ...callsOf(message).flatMap((call) => [call.name, call.arguments]),
      (message.role === 'assistant' && message.refusal) || '',
    ]),
  ]
  const attachments = body.messages.flatMap(attachmentsOf).length
  return texts.reduce((sum, text) => sum + countTokens(text), attachments * TOKENS_PER_ATTACHMENT)
}

/**
 * Reads whether the model is to reason: OpenAI's `reasoning_effort`, and the `reasoning` and `include_reasoning` of other
 * gateways, which are in nobody's schema, so that anything may be in them. Null where it is not; `isHidden`: reasoning is
 * counted, but not sent.
 */
export function toReasoning(body: CanonicalRequest): { isHidden: boolean; mostTokens: number } | null {
  const { reasoning, include_reasoning }: CanonicalRequest & { reasoning?: unknown; include_reasoning?: unknown } = body
  const told: Record<string, unknown> = typeof reasoning === 'object' && reasoning !== null ? { ...reasoning } : {}
  const effort = told.effort ?? body.reasoning_effort
  const hasBudget = typeof told.max_tokens === 'number' && told.max_tokens > 0
  const isWanted = typeof effort === 'string' || told.enabled === true || hasBudget || include_reasoning === true
  if (!isWanted || told.enabled === false || effort === 'none') return null
  return {
    isHidden: told.exclude === true || include_reasoning === false,
    mostTokens: hasBudget ? Number(told.max_tokens) : Number.POSITIVE_INFINITY,
  }
}
