/**
 * What the demo model says to a request, as a plain value. Pure: the same request always gets the same reply. It says
 * back the last user message; the rest is asked for so:
 *
 * | the request has                                      | the answer has                                            |
 * | ---------------------------------------------------- | --------------------------------------------------------- |
 * | a tool's name as a word of the last user message     | a call of it, of each one that is named                   |
 * | `tool_choice` that forces a call                     | the tools that are named, else the first that is allowed, |
 * |                                                      | of those not called since the last user message           |
 * | tool messages at its end                             | a text that quotes them, unless another call is forced    |
 * | `functions`                                          | the same as for tools, as one `function_call`             |
 * | `response_format`                                    | a JSON object; with a schema, a value that it accepts     |
 * | `reasoning_effort`                                   | reasoning before the rest                                 |
 * | `[refuse]` in the last user message                  | a refusal instead of all else                             |
 * | `[filter]` in the last user message                  | a text, or JSON, that ends early, as `content_filter`     |
 * | `n`                                                  | as many choices, each of which says which it is           |
 * | `max_tokens`, `max_completion_tokens`                | a cut there, in whatever is being written: `length`       |
 * | `stop`                                               | content that ends before it                               |
 * | images, sounds, files                                | how many there were; 256 tokens each                      |
 * | `logprobs`, `top_logprobs`                           | figures that are made up and add up                       |
 *
 * Arguments and values are made from their schemas alone; a schema or a grammar that it cannot follow is refused with
 * status 400. Sampling parameters change nothing.
 */
import type { FinishReason, ToolKind } from '../domain/events.ts'
import type { CanonicalRequest, Message } from '../domain/request.ts'
import { count } from '../domain/text.ts'
import { NO_USAGE, type Usage } from '../domain/usage.ts'
import { cannot, toJson } from './value.ts'

/** One stretch of a choice. A call's tokens are its arguments, or its input. */
export type Part = { kind: 'reasoning' | 'text' | 'refusal'; tokens: string[] } | CallPart

interface CallPart {
  kind: ToolKind
  name: string
  tokens: string[]
}

/** The parts are in the order in which they are written. */
interface Choice {
  parts: Part[]
  finish: FinishReason
}

export interface Reply {
  choices: Choice[]
  usage: Usage
}

const REFUSES = '[refuse]'
const FILTERS = '[filter]'
const NAME = "This is Tollgate's demo model."

/** Makes the reply to a request, each choice cut at `mostTokens` tokens. Throws an UpstreamError for what it cannot do. */
export function toReply(body: CanonicalRequest, mostTokens: number): Reply {
  const isReasoning = (body.reasoning_effort ?? 'none') !== 'none'
  const choices = toChoices(body, body.n ?? 1).map(({ parts, finish }) => {
    const thought: Part[] = isReasoning ? [{ kind: 'reasoning', tokens: toTokens(toThought(body, parts)) }] : []
    return cut({ parts: [...thought, ...parts], finish }, mostTokens)
  })
  const parts = choices.flatMap((choice) => choice.parts)
  return { choices, usage: toUsage(countPrompt(body), parts) }
}

/** Makes the choices, without reasoning and uncut. */
function toChoices(body: CanonicalRequest, count: number): Choice[] {
  const asked = toAsked(body)
  const repeat = (finish: FinishReason, ...parts: Part[]) => Array.from({ length: count }, () => ({ parts, finish }))
  if (asked.includes(REFUSES)) {
    const text = `${NAME} It refuses, because your message contains ${REFUSES}.`
    return repeat('stop', { kind: 'refusal', tokens: toTokens(text) })
  }
  const calls = toCalls(body)
  if (calls[0]) return repeat(calls[0].kind === 'function_call' ? 'function_call' : 'tool_calls', ...calls)
  const json = toJsonText(body)
  if (asked.includes(FILTERS)) {
    const tokens = toTokens(json ?? NAME)
    return repeat('content_filter', {
      kind: 'text',
      tokens: json === null ? tokens : tokens.slice(0, tokens.length / 2),
    })
  }
  return Array.from({ length: count }, (_, index) => {
    const tokens = toTokens(untilStop(json ?? toSpeech(body, index, count), body.stop))
    return { parts: [{ kind: 'text', tokens }], finish: 'stop' }
  })
}

/** Ends a choice where it has as many tokens as it may. */
function cut({ parts, finish }: Choice, mostTokens: number): Choice {
  const kept: Part[] = []
  let left = mostTokens
  for (const part of parts) {
    const { length } = part.tokens
    if (length === 0 || left > 0) kept.push({ ...part, tokens: part.tokens.slice(0, left) })
    if (length > left) return { parts: kept, finish: 'length' }
    left -= length
  }
  return { parts: kept, finish }
}

function toThought(body: CanonicalRequest, parts: readonly Part[]): string {
  const names = parts.flatMap((part) => ('name' in part ? part.name : []))
  const does = names.length > 0 ? `call ${names.join(', ')}` : parts[0]?.kind === 'refusal' ? 'refuse' : 'answer'
  return `Tokens in the last user message: ${countTokens(toAsked(body))}. A demo model has nothing to think about: it will ${does}.`
}

function toUsage(prompt: number, written: readonly Part[]): Usage {
  const count = (parts: readonly Part[]) => parts.reduce((sum, { tokens }) => sum + tokens.length, 0)
  const completion = count(written)
  const reasoning = count(written.filter(({ kind }) => kind === 'reasoning'))
  return { ...NO_USAGE, prompt, completion, reasoning }
}

/** Writes the JSON that `response_format` asks for; null where it asks for none. */
function toJsonText(body: CanonicalRequest): string | null {
  const format = body.response_format
  if (format?.type === 'json_schema') return toJson(format.json_schema.schema)
  if (format?.type !== 'json_object') return null
  const results = toResults(body).map(toEcho)
  return JSON.stringify({
    model: "Tollgate's demo model",
    you_wrote: toEcho(toAsked(body)),
    ...(results.length > 0 ? { tools_answered: results } : {}),
  })
}

function toSpeech(body: CanonicalRequest, index: number, choices: number): string {
  const which = choices > 1 ? ` This is answer ${index + 1} of ${choices}.` : ''
  const head = `${NAME} It does not think: it says back what it was told, and the same request always gets the same answer.${which}`
  const results = toResults(body)
  if (results.length > 0) return `${head} The tools answered: ${results.map(toEcho).join('; ')}`
  const last = lastOfUser(body)
  const attached = last ? attachmentsOf(last).length : 0
  const also = attached === 0 ? '' : ` You also sent ${count(attached, 'attachment')}.`
  const asked = toAsked(body)
  return `${head}${also} ${asked === '' ? 'You sent no text.' : `You wrote: ${toEcho(asked)}`}`
}

function untilStop(text: string, stop: CanonicalRequest['stop']): string {
  const hits = [stop ?? []].flat().flatMap((end) => (end === '' || !text.includes(end) ? [] : text.indexOf(end)))
  return text.slice(0, Math.min(text.length, ...hits))
}

type Tools = NonNullable<CanonicalRequest['tools']>

interface Tool {
  kind: ToolKind
  name: string
  parameters?: unknown
  format?: Extract<Tools[number], { type: 'custom' }>['custom']['format']
}

/** How many characters of a message are searched for the names of tools. */
const MAX_SEARCHED = 100_000

/**
 * Decides what is called; empty where the model talks. Throws an UpstreamError for a call that it cannot make.
 *
 * Where the model may choose (`auto`), it calls those that the last user message names, in the order of the message, until
 * tools have answered. Where a call is forced (`required`, one tool, allowed tools), it calls a tool at most once between two
 * user messages: those that are named, else the first that is left; once all that are allowed have been called, it answers
 * with text. So an agent's loop ends, after as many rounds as there are tools at most, even where each round forces a call.
 */
function toCalls(body: CanonicalRequest): CallPart[] {
  const { mode, tools } = toChoice(body)
  if (mode === 'none' || tools.length === 0) return []
  if (mode === 'auto' && toResults(body).length > 0) return []
  const called = mode === 'required' ? toCalled(body) : new Set()
  const left = tools.filter(({ name }) => !called.has(name))
  const named = toNamed(left, toAsked(body))
  const chosen = named.length === 0 && mode === 'required' ? left.slice(0, 1) : named
  // A message has room for one legacy call.
  const isSingle = body.parallel_tool_calls === false || chosen[0]?.kind === 'function_call'
  return (isSingle ? chosen.slice(0, 1) : chosen).map((tool) => ({
    kind: tool.kind,
    name: tool.name,
    tokens: toTokens(tool.kind === 'custom' ? toInput(tool) : toJson(tool.parameters)),
  }))
}

/** Reads every form of `tool_choice`, and of `function_call`. `tools` are those that may be called. */
function toChoice(body: CanonicalRequest): { mode: 'none' | 'auto' | 'required'; tools: Tool[] } {
  const tools = (body.tools ?? []).map<Tool>((tool) =>
    tool.type === 'function' ? { kind: 'function', ...tool.function } : { kind: 'custom', ...tool.custom },
  )
  const functions = (body.functions ?? []).map<Tool>((tool) => ({ kind: 'function_call', ...tool }))
  if (tools.length === 0 && functions.length > 0) {
    const choice = body.function_call ?? 'auto'
    return typeof choice === 'string' ? { mode: choice, tools: functions } : force(functions, [choice.name])
  }
  const choice = body.tool_choice ?? 'auto'
  if (choice === 'required') return force(tools)
  if (typeof choice === 'string') return { mode: choice, tools }
  if (choice.type === 'function') return force(tools, [choice.function.name])
  if (choice.type === 'custom') return force(tools, [choice.custom.name])
  const allowed = choice.allowed_tools.tools.flatMap((entry) => [nameIn(entry.function), nameIn(entry.custom)])
  if (choice.allowed_tools.mode === 'required') return force(tools, allowed)
  return { mode: 'auto', tools: tools.filter(({ name }) => allowed.includes(name)) }
}

const nameIn = (entry: unknown): unknown =>
  typeof entry === 'object' && entry !== null && 'name' in entry ? entry.name : null

function force(tools: readonly Tool[], names?: readonly unknown[]): { mode: 'required'; tools: Tool[] } {
  const allowed = tools.filter(({ name }) => names?.includes(name) ?? true)
  if (allowed.length === 0) throw cannot('The tool that was forced is not among the tools.')
  return { mode: 'required', tools: allowed }
}

/** Finds the tools whose names are words of a text, in the order of the text. */
function toNamed(tools: readonly Tool[], text: string): Tool[] {
  const byName = new Map(tools.map((tool) => [tool.name, tool]))
  const words = new Set(text.slice(0, MAX_SEARCHED).match(/[\w-]+/g))
  return [...words].flatMap((word) => byName.get(word) ?? [])
}

function toInput({ name, format }: Tool): string {
  if (format?.type === 'grammar') throw cannot(`The demo model cannot follow the grammar of the tool ${name}.`)
  return 'demo'
}

/** What an image, a sound, a file or any other part counts, whatever its size: the demo model does not look into it. */
const TOKENS_PER_ATTACHMENT = 256

/** How much of a message is said back. */
const ECHOED_TOKENS = 200

/** Joins the text of a message: its text parts and its refusals. */
function textOf({ content }: Message): string {
  if (typeof content === 'string') return content
  return (content ?? [])
    .flatMap((part) => (part.type === 'text' ? part.text : part.type === 'refusal' ? part.refusal : []))
    .join(' ')
}

const lastOfUser = ({ messages }: CanonicalRequest) => messages.findLast(({ role }) => role === 'user')

/** Returns the text of the last user message. */
function toAsked(body: CanonicalRequest): string {
  const last = lastOfUser(body)
  return last ? textOf(last) : ''
}

/** Returns what the tools at the end of the conversation answered; empty where somebody else spoke last. */
function toResults({ messages }: CanonicalRequest): string[] {
  const before = messages.findLastIndex(({ role }) => role !== 'tool' && role !== 'function')
  return messages.slice(before + 1).map(textOf)
}

/** Returns the names of the tools that were called since the last user message. */
function toCalled({ messages }: CanonicalRequest): Set<string> {
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

const attachmentsOf = ({ content }: Message) =>
  Array.isArray(content) ? content.filter(({ type }) => type !== 'text' && type !== 'refusal') : []

/** Shortens a text to what is worth saying back. */
function toEcho(text: string): string {
  const tokens = toTokens(text, ECHOED_TOKENS + 1)
  if (tokens.length <= ECHOED_TOKENS) return text
  return `${tokens.slice(0, ECHOED_TOKENS).join('')} … and ${countTokens(text) - ECHOED_TOKENS} more tokens`
}

/** Counts what the demo model reads: messages, attachments, and the tools and the schema that it was given. */
function countPrompt(body: CanonicalRequest): number {
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

/** Letters and digits are those of ASCII and all above it but its three blanks. */
const TOKEN =
  / ?(?:[0-9A-Za-z\x80-\x9f\xa1-\u2027\u202a-\u{10ffff}]{1,8}|[^\s0-9A-Za-z\x80-\u{10ffff}]{1,4})|[\t-\r \xa0\u2028\u2029]{1,8}/gu

/** Counts the tokens of a text without building them. */
export function countTokens(text: string): number {
  let count = 0
  TOKEN.lastIndex = 0
  while (TOKEN.test(text)) count += 1
  return count
}

/** Splits a text into its first `most` tokens; joined, all of them are the text again. */
export function toTokens(text: string, most = Number.POSITIVE_INFINITY): string[] {
  const tokens: string[] = []
  for (const [token] of text.matchAll(TOKEN)) {
    if (tokens.length >= most) break
    tokens.push(token)
  }
  return tokens
}
