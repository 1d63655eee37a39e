/**
 * How the demo model reads a conversation: the text of a message, what was asked last, what tools have answered since,
 * what came besides text, and how many tokens all of it is. Pure.
 */
import type { CanonicalRequest, Message } from '../domain/request.ts'
import { countTokens, toTokens } from './tokens.ts'

/** What an image, a sound or a file counts, whatever its size: the demo model does not look into it. */
const TOKENS_PER_ATTACHMENT = 256

/** How much of a message is said back. */
const ECHOED_TOKENS = 200

/** Joins the text of a message: its content, its refusal and the text parts of either. */
export function textOf({ content }: Message): string {
  if (typeof content === 'string') return content
  return (content ?? [])
    .flatMap((part) => ('text' in part ? part.text : 'refusal' in part ? part.refusal : []))
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

/** Says what came besides text in the last user message: `1 image and 2 files`, or null. */
export function toAttached(body: CanonicalRequest): string | null {
  const kinds = attachmentsOf(lastOfUser(body))
  const count = (kind: string, name: string) => {
    const many = kinds.filter((one) => one === kind).length
    return many === 0 ? [] : [`${many} ${name}${many === 1 ? '' : 's'}`]
  }
  const said = [...count('image_url', 'image'), ...count('input_audio', 'sound'), ...count('file', 'file')]
  const [last, ...others] = said.reverse()
  if (last === undefined) return null
  return others.length === 0 ? last : `${others.reverse().join(', ')} and ${last}`
}

function attachmentsOf(message: Message | undefined): string[] {
  if (!Array.isArray(message?.content)) return []
  return message.content.map(({ type }) => type).filter((type) => type !== 'text' && type !== 'refusal')
}

/** Shortens a text to what is worth saying back. */
export function toEcho(text: string): string {
  const tokens = toTokens(text, ECHOED_TOKENS + 1)
  if (tokens.length <= ECHOED_TOKENS) return text
  const more = countTokens(text) - ECHOED_TOKENS
  return `${tokens.slice(0, ECHOED_TOKENS).join('')} … and ${more} more tokens`
}

/** Counts what the demo model reads: messages, attachments, and the tools and the schema that it was given. */
export function countPrompt(body: CanonicalRequest): number {
  const format = body.response_format?.type === 'json_schema' ? body.response_format : null
  const given = [body.tools, body.functions, format].filter((one) => one !== null && one !== undefined)
  const declared = given.reduce<number>((sum, one) => sum + countTokens(JSON.stringify(one)), 0)
  return body.messages.reduce((sum, message) => sum + countMessage(message), declared)
}

function countMessage(message: Message): number {
  const content = countTokens(textOf(message)) + attachmentsOf(message).length * TOKENS_PER_ATTACHMENT
  if (message.role !== 'assistant') return content
  const calls = (message.tool_calls ?? []).map((call) =>
    call.type === 'function' ? call.function : { name: call.custom.name, arguments: call.custom.input },
  )
  if (message.function_call) calls.push(message.function_call)
  return calls.reduce(
    (sum, call) => sum + countTokens(call.name) + countTokens(call.arguments),
    content + countTokens(message.refusal ?? ''),
  )
}
