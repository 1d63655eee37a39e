/**
 * What the demo model says to a request, as tokens ready to send. Pure: the same request always gets the same reply.
 * It says back the last user message; the rest is asked for so:
 *
 * | the request has                                      | the answer has                                            |
 * | ---------------------------------------------------- | --------------------------------------------------------- |
 * | a tool's name as a word of the last user message     | a call of it, of each one that is named                   |
 * | `tool_choice` that forces a call                     | the tools that are named, else the first that is allowed  |
 * | tool messages at its end                             | a text that quotes them, unless a call is forced          |
 * | `functions`                                          | the same as for tools, as one `function_call`             |
 * | `response_format`                                    | a JSON object; with a schema, a value that it accepts     |
 * | `reasoning_effort`, `reasoning`, `include_reasoning` | reasoning before the rest; counted where it is excluded   |
 * | `[refuse]` in the last user message                  | a refusal instead of all else                             |
 * | `[filter]` in the last user message                  | a text that ends early, as `content_filter`               |
 * | `n`                                                  | as many choices, each of which says which it is           |
 * | `max_tokens`, `max_completion_tokens`                | a cut there, in whatever is being written: `length`       |
 * | `stop`                                               | content that ends before it                               |
 * | images, sounds, files                                | how many there were; 256 tokens each                      |
 * | `logprobs`, `top_logprobs`                           | figures that are made up and add up                       |
 *
 * Arguments and values are made from their schemas alone. Sampling parameters change nothing.
 */
import type { FinishReason } from '../domain/answer.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Usage } from '../domain/usage.ts'
import { countPrompt, toAsked, toAttached, toEcho, toResults } from './messages.ts'
import { toReasoning } from './reasoning.ts'
import { countTokens, toTokens } from './tokens.ts'
import { type CallKind, toCalls } from './tools.ts'
import { toJson } from './value.ts'

/** One stretch of a choice. A call's tokens are its arguments or its input; `hidden` reasoning is counted, not sent. */
export type Part =
  | { kind: 'reasoning'; hidden: boolean; tokens: string[] }
  | { kind: 'content' | 'refusal'; tokens: string[] }
  | { kind: CallKind; name: string; tokens: string[] }

/** One choice: its parts in the order in which they are written. */
export interface Reply {
  parts: Part[]
  finish: FinishReason
}

/** A part that nobody has cut yet. */
type Draft = Part extends infer One ? (One extends Part ? Omit<One, 'tokens'> & { text: string } : never) : never

const REFUSES = '[refuse]'
const FILTERS = '[filter]'
const NAME = "This is Tollgate's demo model."

/** Converts a request to its choices, each cut at `mostTokens` tokens. Throws an UpstreamError for what it cannot do. */
export function toReplies(body: CanonicalRequest, mostTokens: number): Reply[] {
  const count = body.n ?? 1
  const asked = toAsked(body)
  if (asked.includes(REFUSES)) {
    const text = `${NAME} It refuses, because your message contains ${REFUSES}.`
    return repeat(count, toReply(body, [{ kind: 'refusal', text }], 'stop', mostTokens))
  }
  const calls = toCalls(body)
  if (calls.length > 0) {
    const finish = calls[0]?.kind === 'legacy' ? 'function_call' : 'tool_calls'
    return repeat(count, toReply(body, calls, finish, mostTokens))
  }
  const json = toJsonText(body)
  const filtered = json === null && asked.includes(FILTERS)
  return Array.from({ length: count }, (_, index) => {
    const text = filtered ? NAME : untilStop(json ?? toSpeech(body, index, count), body.stop)
    return toReply(body, [{ kind: 'content', text }], filtered ? 'content_filter' : 'stop', mostTokens)
  })
}

const repeat = (count: number, reply: Reply): Reply[] => Array.from({ length: count }, () => reply)

function toReply(body: CanonicalRequest, said: Draft[], finish: FinishReason, mostTokens: number): Reply {
  const drafts = [...toThoughts(body, said), ...said]
  const parts: Part[] = []
  let left = mostTokens
  for (const { text, ...part } of drafts) {
    if (left === 0 && text !== '') return { parts, finish: 'length' }
    const tokens = toTokens(text, left + 1)
    if (tokens.length > left) return { parts: [...parts, { ...part, tokens: tokens.slice(0, left) }], finish: 'length' }
    parts.push({ ...part, tokens })
    left -= tokens.length
  }
  return { parts, finish }
}

function toThoughts(body: CanonicalRequest, said: readonly Draft[]): Draft[] {
  const reasoning = toReasoning(body)
  if (!reasoning) return []
  const names = said.flatMap((draft) => ('name' in draft ? draft.name : []))
  const does = names.length > 0 ? `call ${names.join(', ')}` : said[0]?.kind === 'refusal' ? 'refuse' : 'answer'
  const thought = `Tokens in the last user message: ${countTokens(toAsked(body))}. A demo model has nothing to think about: it will ${does}.`
  return [{ kind: 'reasoning', hidden: reasoning.hidden, text: toTokens(thought, reasoning.mostTokens).join('') }]
}

/** Counts what was read and written; whole or streamed, a conversation costs the same. */
export function toUsage(body: CanonicalRequest, replies: readonly Reply[]): Usage {
  const prompt = countPrompt(body)
  const written = replies.flatMap(({ parts }) => parts)
  const completion = countAll(written)
  const reasoning = countAll(written.filter(({ kind }) => kind === 'reasoning'))
  const raw = {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: reasoning },
  }
  return { prompt, cacheRead: 0, cacheWrite: 0, cacheWrite1h: 0, completion, reasoning, raw }
}

const countAll = (parts: readonly Part[]) => parts.reduce((sum, { tokens }) => sum + tokens.length, 0)

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
  const sequences = typeof stop === 'string' ? [stop] : (stop ?? [])
  const found = sequences.filter((sequence) => sequence !== '').map((sequence) => text.indexOf(sequence))
  const hits = found.filter((at) => at !== -1)
  return hits.length === 0 ? text : text.slice(0, Math.min(...hits))
}
