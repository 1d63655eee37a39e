/**
 * Puts the demo model's replies into the wire's shapes: a whole answer's choices, or a stream's events as the
 * contract's section 3b orders them. Both are made from the same tokens. Pure.
 */
import type { AnswerEvent, ChatMessage, Choice, ChunkChoice, Delta, Logprobs, ToolCall } from '../domain/answer.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Usage } from '../domain/usage.ts'
import { toLogprobs } from './logprobs.ts'
import type { Part, Reply } from './reply.ts'

/** Names the call at a place of a choice. */
type ToCallId = (choice: number, place: number) => string

/** Converts replies to the choices of a whole answer. */
export function toChoices(body: CanonicalRequest, replies: readonly Reply[], toId: ToCallId): Choice[] {
  return replies.map(({ parts, finish }, index) => {
    const content = parts.find(({ kind }) => kind === 'content')
    const refusal = parts.find(({ kind }) => kind === 'refusal')
    const reasoning = parts.find((part) => part.kind === 'reasoning' && !part.hidden)
    const legacy = parts.find(isLegacy)
    const calls = parts.filter(isCall).map((part, place) => toToolCall(part, toId(index, place)))
    const message: ChatMessage = {
      role: 'assistant',
      content: content || speaks(parts) ? textOf(content) : null,
      refusal: refusal ? textOf(refusal) : null,
      ...(reasoning ? { reasoning: textOf(reasoning) } : {}),
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
      ...(legacy ? { function_call: { name: legacy.name, arguments: textOf(legacy) } } : {}),
    }
    const rated = content ?? refusal
    return {
      index,
      message,
      finish_reason: finish,
      logprobs: rated ? toLogprobs(body, rated.kind, rated.tokens) : null,
    }
  })
}

const textOf = (part: Part | undefined) => part?.tokens.join('') ?? ''

/** Whether a choice is for reading: one that was cut while it thought has a content too, if an empty one. */
const speaks = (parts: readonly Part[]) => parts.every(({ kind }) => kind === 'content' || kind === 'reasoning')

const isLegacy = (part: Part): part is Part & { kind: 'legacy' } => part.kind === 'legacy'

type CallPart = Part & { kind: 'function' | 'custom' }

const isCall = (part: Part): part is CallPart => part.kind === 'function' || part.kind === 'custom'

function toToolCall(part: CallPart, id: string): ToolCall {
  const { kind, name } = part
  if (kind === 'custom') return { id, type: kind, custom: { name, input: textOf(part) } }
  return { id, type: kind, function: { name, arguments: textOf(part) } }
}

/** Converts replies to a stream's batches, one for each token; the choices advance side by side. */
export function* toBatches(
  body: CanonicalRequest,
  replies: readonly Reply[],
  usage: Usage,
  toId: ToCallId,
): Generator<AnswerEvent[]> {
  yield replies.map(({ parts }, index) =>
    toEvent(index, { role: 'assistant', content: speaks(parts) ? '' : null, refusal: null }),
  )
  let running = replies.map(({ parts }, index) => toSteps(body, parts, index, toId))
  while (running.length > 0) {
    const batch: AnswerEvent[] = []
    running = running.filter((steps) => {
      const { value, done } = steps.next()
      if (!done) batch.push(...value)
      return !done
    })
    if (batch.length > 0) yield batch
  }
  yield [...replies.map(({ finish }, index) => toEvent(index, {}, finish)), { usage }, { done: true }]
}

/** The steps of one choice. What opens a call goes with its first token. */
function* toSteps(
  body: CanonicalRequest,
  parts: readonly Part[],
  index: number,
  toId: ToCallId,
): Generator<AnswerEvent[]> {
  let place = -1
  for (const part of parts) {
    if (part.kind === 'reasoning' && part.hidden) continue
    if (isCall(part)) place += 1
    const opening = toOpening(part, place, isCall(part) ? toId(index, place) : '')
    let step = opening ? [toEvent(index, opening)] : []
    for (const token of part.tokens) {
      yield [...step, toEvent(index, toDelta(part, place, token), null, toLogprobs(body, part.kind, [token]))]
      step = []
    }
    if (step.length > 0) yield step
  }
}

function toOpening(part: Part, index: number, id: string): Delta | null {
  if (part.kind === 'legacy') return { function_call: { name: part.name, arguments: '' } }
  if (!isCall(part)) return null
  const { kind, name } = part
  if (kind === 'custom') return { tool_calls: [{ index, id, type: kind, custom: { name, input: '' } }] }
  return { tool_calls: [{ index, id, type: kind, function: { name, arguments: '' } }] }
}

function toDelta({ kind }: Part, index: number, token: string): Delta {
  if (kind === 'legacy') return { function_call: { arguments: token } }
  if (kind === 'function') return { tool_calls: [{ index, function: { arguments: token } }] }
  if (kind === 'custom') return { tool_calls: [{ index, custom: { input: token } }] }
  return { [kind]: token }
}

const toEvent = (
  index: number,
  delta: Delta,
  finish: ChunkChoice['finish_reason'] = null,
  logprobs: Logprobs | null = null,
): AnswerEvent => ({ chunk: { choices: [{ index, delta, finish_reason: finish, logprobs }] } })
