/**
 * The reply of the demo model. Deterministic: it echoes the last user message, and otherwise:
 *
 * | Request                                          | Response                                             |
 * | ------------------------------------------------ | ---------------------------------------------------- |
 * | Tool names as words in the last user message     | A call of each                                       |
 * | `tool_choice` that forces a call                 | Named tools, else the first allowed one, but none    |
 * |                                                  | already called since the last user message           |
 * | Tool messages at the end                         | Text that quotes them, unless another call is forced |
 * | `functions`                                      | As for tools, but one `function_call`                |
 * | `response_format`                                | A JSON object; with a schema, a matching value       |
 * | `reasoning_effort`                               | Reasoning first                                      |
 * | `[refuse]` in the last user message              | A refusal                                            |
 * | `[filter]` in the last user message              | Shortened text or JSON, finish `content_filter`      |
 * | `n`                                              | That many numbered choices                           |
 * | `max_tokens`, `max_completion_tokens`            | Truncated there, finish `length`                     |
 * | `stop`                                           | Text up to it                                        |
 * | Images, audio, files                             | Their number; 256 tokens each                        |
 * | `logprobs`, `top_logprobs`                       | Invented but consistent values                       |
 *
 * A schema or grammar that it can't follow gets status 400. Sampling parameters have no effect.
 */
import type { FinishReason, ToolKind } from '../domain/events.ts'
import type { CanonicalRequest, Message } from '../domain/request.ts'
import { count } from '../domain/text.ts'
import { NO_USAGE, type Usage } from '../domain/usage.ts'
import { cannot, toJson } from './value.ts'

/** The tokens of a call are its arguments or input. */
export type Part = { kind: 'reasoning' | 'text' | 'refusal'; tokens: string[] } | CallPart

interface CallPart {
  kind: ToolKind
  name: string
  tokens: string[]
}

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

/** Cuts each choice at `mostTokens`. @throws an UpstreamError for what the demo model can't do. */
export function toReply(body: CanonicalRequest, mostTokens: number): Reply {
  const isReasoning = (body.reasoning_effort ?? 'none') !== 'none'
  const choices = toChoices(body, body.n ?? 1).map(({ parts, finish }) => {
    const thought: Part[] = isReasoning ? [{ kind: 'reasoning', tokens: toTokens(toThought(body, parts)) }] : []
    return cut({ parts: [...thought, ...parts], finish }, mostTokens)
  })
  const parts = choices.flatMap((choice) => choice.parts)
  return { choices, usage: toUsage(countPrompt(body), parts) }
}

/** Choices without reasoning, uncut. */
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
  return `Tokens in the last user message: ${countTokens(toAsked(body))}. The demo model doesn't think; it will ${does}.`
}

function toUsage(prompt: number, written: readonly Part[]): Usage {
  const count = (parts: readonly Part[]) => parts.reduce((sum, { tokens }) => sum + tokens.length, 0)
  const completion = count(written)
  const reasoning = count(written.filter(({ kind }) => kind === 'reasoning'))
  return { ...NO_USAGE, prompt, completion, reasoning }
}

/** The JSON for `response_format`; null without one. */
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
  const which = choices > 1 ? ` This is response ${index + 1} of ${choices}.` : ''
  const head = `${NAME} It echoes your prompt, and the same request always gets the same response.${which}`
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

/** Characters of a message searched for tool names. */
const MAX_SEARCHED = 100_000

/**
 * The tool calls; empty for a text response. With `auto`, it calls the tools that the last user message names, until there are tool
 * results. If a call is forced, it calls each tool at most once per user message, so that an agent's loop ends even if every round
 * forces a call.
 * @throws an UpstreamError for a call it can't make.
 */
function toCalls(body: CanonicalRequest): CallPart[] {
  const { mode, tools } = toChoice(body)
  if (mode === 'none' || tools.length === 0) return []
  if (mode === 'auto' && toResults(body).length > 0) return []
  const called = mode === 'required' ? toCalled(body) : new Set()
  const left = tools.filter(({ name }) => !called.has(name))
  const named = toNamed(left, toAsked(body))
  const chosen = named.length === 0 && mode === 'required' ? left.slice(0, 1) : named
  // A message can have only one legacy call.
  const isSingle = body.parallel_tool_calls === false || chosen[0]?.kind === 'function_call'
  return (isSingle ? chosen.slice(0, 1) : chosen).map((tool) => ({
    kind: tool.kind,
    name: tool.name,
    tokens: toTokens(tool.kind === 'custom' ? toInput(tool) : toJson(tool.parameters)),
  }))
}

/** `tools` are the allowed ones. */
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
  if (allowed.length === 0) throw cannot('The forced tool is not in `tools`.')
  return { mode: 'required', tools: allowed }
}

/** Tools named in a text, in its order. */
function toNamed(tools: readonly Tool[], text: string): Tool[] {
  const byName = new Map(tools.map((tool) => [tool.name, tool]))
  const words = new Set(text.slice(0, MAX_SEARCHED).match(/[\w-]+/g))
  return [...words].flatMap((word) => byName.get(word) ?? [])
}

function toInput({ name, format }: Tool): string {
  if (format?.type === 'grammar') throw cannot(`The demo model can't follow the grammar of tool ${name}.`)
  return 'demo'
}

/** For any image, audio, file, or other part, regardless of its size. */
const TOKENS_PER_ATTACHMENT = 256

const ECHOED_TOKENS = 200

/** Text parts and refusals of a message. */
function textOf({ content }: Message): string {
  if (typeof content === 'string') return content
  return (content ?? [])
    .flatMap((part) => (part.type === 'text' ? part.text : part.type === 'refusal' ? part.refusal : []))
    .join(' ')
}

const lastOfUser = ({ messages }: CanonicalRequest) => messages.findLast(({ role }) => role === 'user')

/** Text of the last user message. */
function toAsked(body: CanonicalRequest): string {
  const last = lastOfUser(body)
  return last ? textOf(last) : ''
}

/** Tool results at the end of the conversation. */
function toResults({ messages }: CanonicalRequest): string[] {
  const before = messages.findLastIndex(({ role }) => role !== 'tool' && role !== 'function')
  return messages.slice(before + 1).map(textOf)
}

/** Names of tools called since the last user message. */
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

function toEcho(text: string): string {
  const tokens = toTokens(text, ECHOED_TOKENS + 1)
  if (tokens.length <= ECHOED_TOKENS) return text
  return `${tokens.slice(0, ECHOED_TOKENS).join('')} … and ${countTokens(text) - ECHOED_TOKENS} more tokens`
}

/** Counts messages, attachments, tools, and the schema. */
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

/** Letters and digits are ASCII ones and all non-ASCII characters except three blanks. */
const TOKEN =
  / ?(?:[0-9A-Za-z\x80-\x9f\xa1-\u2027\u202a-\u{10ffff}]{1,8}|[^\s0-9A-Za-z\x80-\u{10ffff}]{1,4})|[\t-\r \xa0\u2028\u2029]{1,8}/gu

/** Builds no list of tokens. */
export function countTokens(text: string): number {
  let count = 0
  TOKEN.lastIndex = 0
  while (TOKEN.test(text)) count += 1
  return count
}

/** The first `most` tokens; all tokens joined are the text. */
export function toTokens(text: string, most = Number.POSITIVE_INFINITY): string[] {
  const tokens: string[] = []
  for (const [token] of text.matchAll(TOKEN)) {
    if (tokens.length >= most) break
    tokens.push(token)
  }
  return tokens
}
