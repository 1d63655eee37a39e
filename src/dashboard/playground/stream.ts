/** Applies the chunks of a streamed completion to an answer. */

import { asObject } from '../../domain/json.ts'
import { costNanoUsd } from '../../domain/price.ts'
import { capitalize } from '../../domain/text.ts'
import { NO_USAGE, type PricingItem } from '../../domain/usage.ts'
import type { Refusal } from '../api/refusal.ts'
import { toLatency, toMoney } from '../figures/figures.ts'
import { type Answer, type AnswerUsage, type Call, isRunning } from './thread.ts'

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
 * @param data of one event: JSON or `[DONE]`
 * @param nowMs same clock as `startedMs`
 */
export function takeData(answer: Answer, data: string, nowMs: number): Answer {
  // Skipped indexes leave holes.
  if (data === '[DONE]') return { ...answer, state: 'done', calls: answer.calls.filter(Boolean), endedMs: nowMs }
  const chunk = readChunk(data)
  if (chunk === null) return breakOff(answer, 'invalid data in the stream', nowMs)
  if (chunk.error) return breakOff(answer, chunk.error.message ?? 'the model returned an error', nowMs)
  let taken = answer
  if (chunk.usage) taken = { ...taken, usage: toUsage(chunk.usage) }
  const [choice] = chunk.choices ?? []
  if (choice?.finish_reason) taken = { ...taken, finish: choice.finish_reason }
  return choice?.delta ? takeDelta(taken, choice.delta, nowMs) : taken
}

function readChunk(data: string): Chunk | null {
  try {
    return asObject(JSON.parse(data))
  } catch {
    return null
  }
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

/** Ends an answer with an error. */
export function breakOff(answer: Answer, why: string, nowMs: number): Answer {
  const isCut = answer.firstMs !== null
  const sentence = `${capitalize(why)}${/[.!?]$/.test(why) ? '' : '.'}`
  return {
    ...answer,
    state: isCut ? 'cut' : 'failed',
    problem: isCut ? `Response interrupted. ${sentence}` : sentence,
    endedMs: nowMs,
  }
}

/** The user stopped it. */
export const stop = (answer: Answer, nowMs: number): Answer => ({
  ...answer,
  state: 'stopped',
  problem: answer.firstMs === null ? 'Stopped before the first token.' : 'Stopped. Usage up to here is recorded.',
  endedMs: nowMs,
})

/** Note on how a complete answer ended; null if normally. */
export function toEnding({ state, finish, refusal }: Answer): string | null {
  if (state !== 'done') return null
  if (finish === 'length') return 'Stopped at the max tokens limit.'
  if (finish === 'content_filter') return "Stopped by the provider's content filter."
  return refusal === '' ? null : 'The model refused to answer.'
}

/** Returns the data of each event completed by a piece. */
export function createEventReader(): (piece: string) => string[] {
  let rest = ''
  return (piece) => {
    const text = rest + piece
    // A \n may follow a final \r.
    const end = text.length - (text.endsWith('\r') ? 1 : 0)
    const events = text.slice(0, end).replaceAll(/\r\n?/g, '\n').split('\n\n')
    rest = `${events.pop()}${text.slice(end)}`
    return events.flatMap(toData)
  }
}

function toData(event: string): string[] {
  const lines = event.split('\n').filter((line) => line.startsWith('data:'))
  return lines.length === 0 ? [] : [lines.map((line) => line.replace(/^data: ?/, '')).join('\n')]
}

/** True if the failed request is recorded, since an upstream was called. */
export const isRecorded = ({ kind }: Pick<Refusal, 'kind'>): boolean => /^upstream_|^schema_not_met$/.test(kind)

const BYTES_PER_TOKEN = 4
/** Estimate for an image of unknown size. */
const TOKENS_PER_PICTURE = 765
/** Shorter times give no meaningful rate. */
const MIN_MS = 50

interface AnswerFigures {
  /** Null before the first token. */
  firstMs: number | null
  /** Until its end, or until now. */
  tookMs: number
  tokens: number
  tokensPerSecond: number | null
  /** Null if unknown. */
  nanoUsd: number | null
  /** True if tokens and cost are estimated from the text so far. */
  isEstimated: boolean
}

/** @param pricing null if unknown */
export function toFigures(answer: Answer, pricing: readonly PricingItem[] | null, nowMs: number): AnswerFigures {
  const { startedMs, firstMs, endedMs, usage } = answer
  const tokens = usage?.completionTokens ?? Math.ceil(answer.bytes / BYTES_PER_TOKEN)
  const untilMs = endedMs ?? nowMs
  // Hidden reasoning was generated before the first visible token.
  const hidden = answer.reasoning === '' ? (usage?.reasoningTokens ?? 0) : 0
  const writingMs = firstMs === null ? 0 : untilMs - firstMs
  return {
    firstMs: firstMs === null ? null : firstMs - startedMs,
    tookMs: untilMs - startedMs,
    tokens,
    tokensPerSecond: writingMs < MIN_MS || tokens - hidden < 2 ? null : ((tokens - hidden) / writingMs) * 1_000,
    nanoUsd: usage?.costNanoUsd ?? toCost(answer, pricing, tokens, untilMs),
    isEstimated: usage === null,
  }
}

function toCost(
  answer: Answer,
  pricing: readonly PricingItem[] | null,
  completion: number,
  untilMs: number,
): number | null {
  const { promptTokens, startedMs, firstMs, state, requestId } = answer
  // Rejected requests cost nothing; for failed calls, only the ledger has the cost.
  if (firstMs === null) return state === 'failed' && requestId === null ? 0 : null
  const computeMs = Math.round(untilMs - startedMs)
  return pricing && costNanoUsd(pricing, { ...NO_USAGE, prompt: promptTokens, completion, computeMs })
}

/** Rough token count of a request. */
export function estimatePrompt(body: unknown): number {
  let pictures = 0
  const text = JSON.stringify(body, (name, value) => {
    if (name !== 'url' || typeof value !== 'string' || !value.startsWith('data:')) return value
    pictures++
    return ''
  })
  return Math.ceil(text.length / BYTES_PER_TOKEN) + pictures * TOKENS_PER_PICTURE
}

export const toRate = (perSecond: number): string =>
  `${perSecond < 9.95 ? perSecond.toFixed(1) : Math.round(perSecond)} tokens/s`

/** Screen reader announcement. */
export function toSpoken(answer: Answer, figures: AnswerFigures): string {
  const name = answer.model ?? ''
  if (isRunning(answer)) return `${name} is responding.`
  if (answer.state === 'failed') return `${name} failed. ${answer.problem ?? ''}`
  const cost = figures.nanoUsd === null ? '' : `, ${toMoney(figures.nanoUsd, figures.isEstimated)}`
  const took = `${figures.tokens} tokens in ${toLatency(figures.tookMs)}${cost}`
  if (answer.state === 'done') return `${name} finished: ${took}.`
  return `${name}: ${answer.problem ?? ''} ${took}.`
}
