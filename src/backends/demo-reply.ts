/**
 * What the demo model says to a request, as tokens ready to send: a sentence about itself and the last user message, a
 * call where a tool is forced, JSON where JSON is asked for. Pure: the same request always gets the same reply.
 */
import { UpstreamError } from '../error.ts'
import type { FinishReason } from '../wire/chat.ts'
import type { ChatRequest, Message } from '../wire/request.ts'
import type { Usage } from '../wire/usage.ts'
import { NoInstance, toInstance } from './demo-json.ts'
import { countTokens, toTokens } from './demo-tokens.ts'

/** One choice. `tokens` are its content, or the arguments of `call`. */
export interface Reply {
  call: string | null
  tokens: string[]
  finish: FinishReason
}

/** How much of the user's message is said back. */
const ECHOED_TOKENS = 200

/** Converts a request to its choices, each cut at `mostTokens` tokens. Throws an UpstreamError for what it cannot do. */
export function toReplies(body: ChatRequest, mostTokens: number): Reply[] {
  const count = body.n ?? 1
  const forced = toForcedTool(body)
  if (forced) {
    const reply = toReply(JSON.stringify(instanceOf(forced.parameters ?? { type: 'object' })), mostTokens, forced.name)
    return Array.from({ length: count }, () => reply)
  }
  const json = toJson(body)
  return Array.from({ length: count }, (_, index) => {
    const text = json ?? toSpeech(body, index, count)
    return toReply(untilStop(text, body.stop), mostTokens, null)
  })
}

function toReply(text: string, mostTokens: number, call: string | null): Reply {
  const tokens = toTokens(text, mostTokens + 1)
  if (tokens.length > mostTokens) return { call, tokens: tokens.slice(0, mostTokens), finish: 'length' }
  return { call, tokens, finish: call === null ? 'stop' : 'tool_calls' }
}

/** Counts what was read and written; whole or streamed, a conversation costs the same. */
export function toUsage(body: ChatRequest, replies: readonly Reply[]): Usage {
  const prompt = body.messages.reduce((sum, message) => sum + countMessage(message), 0)
  const completion = replies.reduce((sum, { tokens }) => sum + tokens.length, 0)
  return {
    prompt,
    cacheRead: 0,
    cacheWrite: 0,
    cacheWrite1h: 0,
    completion,
    reasoning: 0,
    raw: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
  }
}

/** Joins the text of a message: its content, its refusal and the text parts of either. */
function textOf({ content }: Message): string {
  if (typeof content === 'string') return content
  if (!content) return ''
  return content.map((part) => ('text' in part ? part.text : 'refusal' in part ? part.refusal : '')).join(' ')
}

function countMessage(message: Message): number {
  const content = countTokens(textOf(message))
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

function toJson(body: ChatRequest): string | null {
  const format = body.response_format
  if (format?.type === 'json_schema') return JSON.stringify(instanceOf(format.json_schema.schema ?? { type: 'object' }))
  if (format?.type !== 'json_object') return null
  return JSON.stringify({ model: "Tollgate's demo model", you_wrote: toEcho(toAsked(body)) })
}

function toSpeech(body: ChatRequest, index: number, count: number): string {
  const asked = toAsked(body)
  const which = count > 1 ? ` This is answer ${index + 1} of ${count}.` : ''
  const said = asked === '' ? 'You sent no text.' : `You wrote: ${toEcho(asked)}`
  return `This is Tollgate's demo model. It does not think: it says back what it was told, and the same request always gets the same answer.${which} ${said}`
}

function toAsked({ messages }: ChatRequest): string {
  const last = messages.findLast(({ role }) => role === 'user')
  return last ? textOf(last) : ''
}

function toEcho(text: string): string {
  const tokens = toTokens(text, ECHOED_TOKENS + 1)
  if (tokens.length <= ECHOED_TOKENS) return text
  const more = countTokens(text) - ECHOED_TOKENS
  return `${tokens.slice(0, ECHOED_TOKENS).join('')} … and ${more} more tokens`
}

function untilStop(text: string, stop: ChatRequest['stop']): string {
  const sequences = typeof stop === 'string' ? [stop] : (stop ?? [])
  const found = sequences.filter((sequence) => sequence !== '').map((sequence) => text.indexOf(sequence))
  const hits = found.filter((at) => at !== -1)
  return hits.length === 0 ? text : text.slice(0, Math.min(...hits))
}

interface FunctionTool {
  name: string
  parameters?: unknown
}

/** Finds the tool that must be called; null where the model may choose, since then this one chooses to talk. */
function toForcedTool(body: ChatRequest): FunctionTool | null {
  const choice = body.tool_choice
  if (!choice || choice === 'none' || choice === 'auto') return null
  const functions = (body.tools ?? []).flatMap((tool) => (tool.type === 'function' ? [tool.function] : []))
  const wanted = toWantedName(choice)
  if (wanted === null) return null
  const tool = wanted === ANY ? functions[0] : functions.find(({ name }) => name === wanted)
  if (tool) return tool
  throw cannot('The demo model only calls function tools, and the one that was forced is not among the tools.')
}

const ANY = Symbol('any function')

function toWantedName(choice: Exclude<ChatRequest['tool_choice'], null | undefined>): string | typeof ANY | null {
  if (typeof choice === 'string') return ANY
  if (choice.type === 'function') return choice.function.name
  if (choice.type === 'custom') return choice.custom.name
  if (choice.allowed_tools.mode === 'auto') return null
  const named = choice.allowed_tools.tools.map(({ function: tool }) =>
    typeof tool === 'object' && tool !== null && 'name' in tool ? tool.name : null,
  )
  return named.find((name) => typeof name === 'string') ?? ANY
}

function instanceOf(schema: unknown): unknown {
  try {
    return toInstance(schema)
  } catch (reason) {
    if (reason instanceof NoInstance) throw cannot(`The demo model found no value for the schema: ${reason.message}.`)
    throw reason
  }
}

const cannot = (sentence: string) => new UpstreamError('status', sentence, { status: 400, retryable: false })
