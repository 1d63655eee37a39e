/** The chunks of a streamed completion, taken into an answer one by one. Pure. */
import { isObject, readJson } from './json-text.ts'
import type { Answer, AnswerUsage, Call } from './thread.ts'

interface CallDelta {
  index?: number
  id?: string
  type?: string
  function?: { name?: string; arguments?: string }
  custom?: { name?: string; input?: string }
}

interface Delta {
  content?: string | null
  reasoning?: string | null
  refusal?: string | null
  tool_calls?: CallDelta[]
}

interface Chunk {
  error?: { message?: string } | null
  choices?: { delta?: Delta; finish_reason?: string | null }[]
  usage?: {
    prompt_tokens: number
    completion_tokens: number
    completion_tokens_details?: { reasoning_tokens?: number }
    cost_nano_usd: number
  } | null
}

const UTF8 = new TextEncoder()

/**
 * @param data of one event: JSON, or `[DONE]`
 * @param nowMs by the clock of its `startedMs`
 */
export function takeData(answer: Answer, data: string, nowMs: number): Answer {
  // Calls that were left out in between are none.
  if (data === '[DONE]') return { ...answer, state: 'done', calls: answer.calls.filter(Boolean), endedMs: nowMs }
  const chunk = readChunk(data)
  if (chunk === null) return breakOff(answer, 'it has a part that cannot be read', nowMs)
  if (chunk.error) return breakOff(answer, chunk.error.message ?? 'the model failed', nowMs)
  let taken = answer
  if (chunk.usage) taken = { ...taken, usage: toUsage(chunk.usage) }
  const [choice] = chunk.choices ?? []
  if (choice?.finish_reason) taken = { ...taken, finish: choice.finish_reason }
  return choice?.delta ? takeDelta(taken, choice.delta, nowMs) : taken
}

function readChunk(data: string): Chunk | null {
  const read = readJson(data)
  return 'value' in read && isObject(read.value) ? read.value : null
}

function takeDelta(answer: Answer, { content, reasoning, refusal, tool_calls: deltas }: Delta, nowMs: number): Answer {
  const written = [content, reasoning, refusal, ...(deltas ?? []).flatMap(toWritten)].join('')
  if (written === '') return answer
  return {
    ...answer,
    state: 'streaming',
    text: answer.text + (content ?? ''),
    reasoning: answer.reasoning + (reasoning ?? ''),
    refusal: answer.refusal + (refusal ?? ''),
    calls: (deltas ?? []).reduce(takeCall, answer.calls),
    bytes: answer.bytes + UTF8.encode(written).length,
    firstMs: answer.firstMs ?? nowMs,
  }
}

const toWritten = ({ function: called, custom }: CallDelta) => [
  called?.name ?? custom?.name ?? '',
  called?.arguments ?? custom?.input ?? '',
]

function takeCall(calls: readonly Call[], { index = 0, id, type, function: called, custom }: CallDelta): Call[] {
  const before: Call = calls[index] ?? { id: '', kind: 'function', name: '', input: '', result: null }
  const taken = [...calls]
  taken[index] = {
    ...before,
    id: before.id + (id ?? ''),
    kind: type === 'custom' || custom ? 'custom' : before.kind,
    name: before.name + (called?.name ?? custom?.name ?? ''),
    input: before.input + (called?.arguments ?? custom?.input ?? ''),
  }
  return taken
}

const toUsage = (usage: NonNullable<Chunk['usage']>): AnswerUsage => ({
  promptTokens: usage.prompt_tokens,
  completionTokens: usage.completion_tokens,
  reasoningTokens: usage.completion_tokens_details?.reasoning_tokens ?? 0,
  costNanoUsd: usage.cost_nano_usd,
})

/** It has ended without having come to its end. */
export function breakOff(answer: Answer, why: string, nowMs: number): Answer {
  const isCut = answer.firstMs !== null
  const sentence = `${why.slice(0, 1).toUpperCase()}${why.slice(1)}${/[.!?]$/.test(why) ? '' : '.'}`
  return {
    ...answer,
    state: isCut ? 'cut' : 'failed',
    problem: isCut ? `The answer broke off. ${sentence}` : sentence,
    endedMs: nowMs,
  }
}

/** Somebody has had enough of it. */
export const stop = (answer: Answer, nowMs: number): Answer => ({
  ...answer,
  state: 'stopped',
  problem:
    answer.firstMs === null
      ? 'Stopped before its first word.'
      : 'Stopped. What it has come to until then is on record.',
  endedMs: nowMs,
})

/** What to know of an answer that came to its end; null where that was an ordinary one. */
export function toEnding({ state, finish, refusal }: Answer): string | null {
  if (state !== 'done') return null
  if (finish === 'length') return 'It ended at the most tokens that it may have.'
  if (finish === 'content_filter') return "The provider's filter ended it."
  return refusal === '' ? null : 'The model refused.'
}
