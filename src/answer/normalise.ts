/**
 * Turns what any backend sends into the contract's frames and completions (design 9). Pure: it is told events and says
 * text. The finish frame, the usage frame and `[DONE]` are the tail, and the tail is asked for only once the ledger has
 * the outcome.
 */
import type { ErrorBody, UpstreamError } from '../error.ts'
import type {
  AnswerEvent,
  ChatCompletion,
  ChatMessage,
  ChunkChoice,
  Completion,
  Delta,
  FinishReason,
} from '../wire/chat.ts'
import { NO_USAGE, type Usage } from '../wire/usage.ts'

/** What identifies an answer, the same in every frame. */
export interface Identity {
  /** `chatcmpl-<request id>` */
  id: string
  /** Unix seconds. */
  created: number
  /** The resolved slug. */
  model: string
}

/** Sizes of what an upstream sent, for an estimate where it reports no usage. UTF-8 bytes. */
export interface Sizes {
  answer: number
  reasoning: number
}

/** What one answer has to look like. */
export interface Shape {
  identity: Identity
  /** The client's `stream_options.include_usage`. */
  includeUsage: boolean
  /** How many choices the client asked for: an index beyond them breaks clients. */
  choices: number
  /** Whether a `<think>` block at the beginning of the content is reasoning (the upstream's `think_tags`). */
  thinkTags: boolean
}

export interface StreamNormaliser {
  /** Takes a batch of events and returns the frames that may go out now; empty while there is only a role. */
  take(events: readonly AnswerEvent[]): string
  /** The last frames, once the outcome is settled: finish, usage if it was asked for, `[DONE]`. */
  tail(usageJson: string): string
  /** True once content, reasoning, a refusal, a tool call or a finish has come: the commit point. */
  committed(): boolean
  /** `done` or the failure that ended the stream; null while it goes on. */
  outcome(): 'done' | UpstreamError | null
  usage(): Usage | null
  sizes(): Sizes
}

interface ChoiceState {
  finish: FinishReason | null
  called: boolean
}

export function createStreamNormaliser({ identity, includeUsage }: Shape): StreamNormaliser {
  const head = `data: ${JSON.stringify({ id: identity.id, object: 'chat.completion.chunk', created: identity.created, model: identity.model }).slice(0, -1)},"choices":[`
  const foot = includeUsage ? '],"usage":null}\n\n' : ']}\n\n'
  const choices = new Map<number, ChoiceState>()
  const sizes: Sizes = { answer: 0, reasoning: 0 }
  let usage: Usage | null = null
  let outcome: 'done' | UpstreamError | null = null

  const frame = (index: number, delta: string, finish: FinishReason | null, logprobs?: unknown) =>
    `${head}{"index":${index},"delta":${delta},"finish_reason":${finish === null ? 'null' : `"${finish}"`}${
      logprobs ? `,"logprobs":${toLine(logprobs)}` : ''
    }}${foot}`

  const begin = (index: number, delta: Delta): [ChoiceState, string] => {
    const state: ChoiceState = { finish: null, called: false }
    choices.set(index, state)
    const content = delta.tool_calls && typeof delta.content !== 'string' ? 'null' : '""'
    return [state, frame(index, `{"role":"assistant","content":${content},"refusal":null}`, null)]
  }

  const takeChoice = (choice: ChunkChoice): string => {
    const index = Number.isInteger(choice?.index) ? choice.index : 0
    const delta = clean(choice?.delta, sizes)
    if (!delta && !choice?.finish_reason) return ''
    let text = ''
    let state = choices.get(index)
    if (!state) {
      const begun = begin(index, delta ?? {})
      state = begun[0]
      text = begun[1]
    }
    if (delta) text += frame(index, toLine(delta), null, choice.logprobs)
    if (delta?.tool_calls) state.called = true
    if (choice.finish_reason) state.finish ??= toFinishReason(choice.finish_reason, state.called)
    return text
  }

  return {
    take(events) {
      let text = ''
      for (const event of events) {
        if (outcome !== null) break
        if ('chunk' in event) for (const choice of event.chunk.choices) text += takeChoice(choice)
        else if ('usage' in event) usage = { ...NO_USAGE, ...usage, ...event.usage }
        else if ('failure' in event) outcome = event.failure
        else outcome = 'done'
      }
      return text
    },
    tail(usageJson) {
      let text = ''
      if (choices.size === 0) text += begin(0, {})[1]
      for (const [index, state] of choices) {
        text += frame(index, '{}', state.finish ?? (state.called ? 'tool_calls' : 'stop'))
      }
      if (includeUsage) text += `${head}],"usage":${usageJson}}\n\n`
      return `${text}data: [DONE]\n\n`
    },
    committed: () => choices.size > 0,
    outcome: () => outcome,
    usage: () => usage,
    sizes: () => sizes,
  }
}

/** What some clients take for the end of a line, though JSON and server-sent events do not (contract, section 8). */
const LINE_ENDS = /[\u0085\u2028\u2029]/g
const ESCAPED: Record<string, string> = { '\u0085': '\\u0085', '\u2028': '\\u2028', '\u2029': '\\u2029' }

const toLine = (value: unknown) => JSON.stringify(value).replace(LINE_ENDS, (found) => ESCAPED[found] ?? '')

/** The frame that tells a client that its stream was cut; nothing follows it. */
export const errorFrame = (body: ErrorBody) => `data: ${toLine(body)}\n\n`

/** Builds the whole answer that the contract describes, but for its usage. */
export function toCompletion(
  { identity }: Shape,
  completion: Completion,
): { answer: Omit<ChatCompletion, 'usage'>; sizes: Sizes } {
  const sizes: Sizes = { answer: 0, reasoning: 0 }
  const choices = completion.choices.map((choice, position) => {
    const message = toMessage(clean(choice?.message as Delta | undefined, sizes))
    return {
      index: Number.isInteger(choice?.index) ? choice.index : position,
      message,
      logprobs: choice?.logprobs ?? null,
      finish_reason: toFinishReason(choice?.finish_reason, message.tool_calls !== undefined),
    }
  })
  const { id, created, model } = identity
  return { answer: { id, object: 'chat.completion', created, model, choices }, sizes }
}

/** Writes a whole answer with its usage as the JSON that goes out. */
export function toCompletionJson(answer: Omit<ChatCompletion, 'usage'>, usageJson: string): string {
  return `${JSON.stringify(answer).slice(0, -1)},"usage":${usageJson}}`
}

function toMessage(delta: Delta | null): ChatMessage {
  const { role: _, content, refusal, tool_calls, ...rest } = delta ?? {}
  return {
    role: 'assistant',
    content: content ?? (tool_calls || refusal ? null : ''),
    refusal: refusal ?? null,
    ...rest,
    ...(tool_calls ? { tool_calls: tool_calls as NonNullable<ChatMessage['tool_calls']> } : {}),
  }
}

/** Keeps what a delta or message says: no role, no nulls, no empty texts; reasoning under both of its names. */
function clean(delta: Delta | null | undefined, sizes: Sizes): Delta | null {
  if (!delta) return null
  const out: Delta = {}
  let some = false
  if (typeof delta.content === 'string' && delta.content !== '') {
    out.content = delta.content
    sizes.answer += Buffer.byteLength(delta.content)
    some = true
  }
  if (typeof delta.refusal === 'string' && delta.refusal !== '') {
    out.refusal = delta.refusal
    sizes.answer += Buffer.byteLength(delta.refusal)
    some = true
  }
  const reasoning = delta.reasoning_content || delta.reasoning
  if (typeof reasoning === 'string' && reasoning !== '') {
    out.reasoning = reasoning
    out.reasoning_content = reasoning
    sizes.reasoning += Buffer.byteLength(reasoning)
    some = true
  }
  if (Array.isArray(delta.tool_calls) && delta.tool_calls.length > 0) {
    out.tool_calls = delta.tool_calls
    sizes.answer += Buffer.byteLength(JSON.stringify(delta.tool_calls))
    some = true
  }
  return some ? out : null
}

const FINISH_REASONS = new Set<unknown>(['stop', 'length', 'tool_calls', 'content_filter', 'function_call'])

function toFinishReason(value: unknown, called: boolean): FinishReason {
  if (called && (value === 'stop' || !FINISH_REASONS.has(value))) return 'tool_calls'
  return FINISH_REASONS.has(value) ? (value as FinishReason) : 'stop'
}
