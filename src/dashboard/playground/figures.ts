/** What an answer took: measured and estimated while it is written, as it was counted and charged once it is there. Pure. */
import { costNanoUsd } from '../../domain/price.ts'
import { NO_USAGE, type PricingItem } from '../../domain/usage.ts'
import { toLatency } from '../figures/counts.ts'
import { toMoney } from '../figures/money.ts'
import { type Answer, isRunning } from './thread.ts'

const BYTES_PER_TOKEN = 4
/** What a picture comes to where nothing is known of it. */
const TOKENS_PER_PICTURE = 765
/** Of less than that no rate is told. */
const LEAST_MS = 50

export interface AnswerFigures {
  /** Since it was asked; null before the first token. */
  firstMs: number | null
  /** Until it ended, or until now. */
  tookMs: number
  tokens: number
  tokensPerSecond: number | null
  /** Null where it cannot be told. */
  nanoUsd: number | null
  /** Whether tokens and cost are estimated from what was written so far. */
  isEstimated: boolean
}

/** @param pricing null where it is not known: its model is not in the list. */
export function toFigures(answer: Answer, pricing: readonly PricingItem[] | null, nowMs: number): AnswerFigures {
  const { startedMs, firstMs, endedMs, usage } = answer
  const tokens = usage?.completionTokens ?? Math.ceil(answer.bytes / BYTES_PER_TOKEN)
  const untilMs = endedMs ?? nowMs
  // What was thought before anything was shown took its time before the first token.
  const hidden = answer.reasoning === '' ? (usage?.reasoningTokens ?? 0) : 0
  const writingMs = firstMs === null ? 0 : untilMs - firstMs
  return {
    firstMs: firstMs === null ? null : firstMs - startedMs,
    tookMs: untilMs - startedMs,
    tokens,
    tokensPerSecond: writingMs < LEAST_MS || tokens - hidden < 2 ? null : ((tokens - hidden) / writingMs) * 1_000,
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
  // What is refused before any model is asked costs nothing; of what was asked and came to nothing, only the record knows.
  if (firstMs === null) return state === 'failed' && requestId === null ? 0 : null
  const computeMs = Math.round(untilMs - startedMs)
  return pricing && costNanoUsd(pricing, { ...NO_USAGE, prompt: promptTokens, completion, computeMs })
}

/** How many tokens a request has, roughly: its pictures count apart. */
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

/** For those who hear the page: that it is there, and what it took. */
export function toSpoken(answer: Answer, figures: AnswerFigures): string {
  const name = answer.model ?? ''
  if (isRunning(answer)) return `${name} answers.`
  if (answer.state === 'failed') return `${name} has not answered. ${answer.problem ?? ''}`
  const cost = figures.nanoUsd === null ? '' : `, ${toMoney(figures.nanoUsd, figures.isEstimated)}`
  const took = `${figures.tokens} tokens in ${toLatency(figures.tookMs)}${cost}`
  if (answer.state === 'done') return `${name} has answered: ${took}.`
  return `${name}: ${answer.problem ?? ''} ${took}.`
}
