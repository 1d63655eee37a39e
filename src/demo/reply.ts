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
 * | `reasoning_effort`, `reasoning`, `include_reasoning` | reasoning before the rest; counted where it is excluded   |
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
import type { CanonicalRequest } from '../domain/request.ts'
import { NO_USAGE, type Usage } from '../domain/usage.ts'
import { countPrompt, toAsked, toAttached, toEcho, toReasoning, toResults } from './conversation.ts'
import { countTokens, toTokens } from './tokens.ts'
import { toCalls } from './tools.ts'
import { toJson } from './value.ts'

/** One stretch of a choice. A call's tokens are its arguments, or its input. */
export type Part = { kind: 'reasoning' | 'text' | 'refusal'; tokens: string[] } | CallPart

export interface CallPart {
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
  /** What was read and written, with reasoning that is not in the parts because it is left out. */
  usage: Usage
}

const REFUSES = '[refuse]'
const FILTERS = '[filter]'
const NAME = "This is Tollgate's demo model."

/** Makes the reply to a request, each choice cut at `mostTokens` tokens. Throws an UpstreamError for what it cannot do. */
export function toReply(body: CanonicalRequest, mostTokens: number): Reply {
  const count = body.n ?? 1
  const reasoning = toReasoning(body)
  const written = toChoices(body, count).map(({ parts, finish }) => {
    const thought = reasoning ? toTokens(toThought(body, parts), reasoning.mostTokens) : []
    return cut({ parts: reasoning ? [{ kind: 'reasoning', tokens: thought }, ...parts] : parts, finish }, mostTokens)
  })
  const choices = written.map(({ parts, finish }) => ({
    parts: parts.filter(({ kind }) => kind !== 'reasoning' || !reasoning?.isHidden),
    finish,
  }))
  const usage = toUsage(
    countPrompt(body),
    written.flatMap(({ parts }) => parts),
  )
  return { choices, usage }
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

function toSpeech(body: CanonicalRequest, index: number, count: number): string {
  const which = count > 1 ? ` This is answer ${index + 1} of ${count}.` : ''
  const head = `${NAME} It does not think: it says back what it was told, and the same request always gets the same answer.${which}`
  const results = toResults(body)
  if (results.length > 0) return `${head} The tools answered: ${results.map(toEcho).join('; ')}`
  const attached = toAttached(body)
  const also = attached === null ? '' : ` You also sent ${attached}.`
  const asked = toAsked(body)
  return `${head}${also} ${asked === '' ? 'You sent no text.' : `You wrote: ${toEcho(asked)}`}`
}

function untilStop(text: string, stop: CanonicalRequest['stop']): string {
  const hits = [stop ?? []].flat().flatMap((end) => (end === '' || !text.includes(end) ? [] : text.indexOf(end)))
  return text.slice(0, Math.min(text.length, ...hits))
}
