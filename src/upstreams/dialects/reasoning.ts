/**
 * The client's reasoning settings: OpenAI's `reasoning_effort`, OpenRouter's `reasoning` (openrouter.ai/docs/use-cases/reasoning-tokens) or
 * Anthropic's `thinking` (platform.claude.com/docs/en/build-with-claude/extended-thinking). Read alike for every dialect.
 */

import { asObject } from '../../domain/json.ts'
import { EFFORTS, type Effort } from '../../domain/models.ts'
import type { CanonicalRequest } from '../../domain/request.ts'
import { UNREQUESTED_REASONING } from '../../domain/task.ts'

export interface ReasoningRequest {
  /** Null for the model's default. False overrides everything else. */
  isOn: boolean | null
  /** The given effort, or one derived from the token budget. Null if neither was given. */
  effort: Effort | null
  tokens: number | null
  /** True if the client refused the reasoning text, or didn't request it. */
  isHidden: boolean
}

/** Maximum tokens per effort, as in Vertex's OpenAI API; more is `high`. */
export const EFFORT_TOKENS = { minimal: 512, low: 1_024, medium: 8_192, high: 24_576 } as const

export function toReasoningRequest(body: CanonicalRequest): ReasoningRequest {
  const reasoning = asObject(body.reasoning)
  const thinking = asObject(body.thinking)
  const said = body.reasoning_effort ?? reasoning?.effort
  const number = reasoning?.max_tokens ?? thinking?.budget_tokens
  const isOff = said === 'none' || number === 0 || reasoning?.enabled === false || thinking?.type === 'disabled'
  if (isOff) return { isOn: false, effort: null, tokens: null, isHidden: true }
  const isHidden =
    body[UNREQUESTED_REASONING] === true || reasoning?.exclude === true || thinking?.display === 'omitted'
  const tokens = typeof number === 'number' && number > 0 ? Math.max(1, Math.round(number)) : null
  const effort = EFFORTS.find((one) => one === said) ?? (tokens === null ? null : toEffort(tokens))
  const isOn = effort !== null || reasoning?.enabled === true || typeof thinking?.type === 'string'
  return { isOn: isOn || null, effort, tokens, isHidden }
}

function toEffort(tokens: number): Effort {
  if (tokens <= EFFORT_TOKENS.minimal) return 'minimal'
  if (tokens <= EFFORT_TOKENS.low) return 'low'
  return tokens <= EFFORT_TOKENS.medium ? 'medium' : 'high'
}

/** Ascending. If reasoning can't be turned off, `none` becomes the lowest effort. */
const ORDER: readonly string[] = ['none', ...EFFORTS]

/** The nearest known effort, the higher one of two; undefined if none is known. */
export function toNearestEffort(wanted: Effort | 'none', known: readonly Effort[]): Effort | undefined {
  const distance = (one: Effort) => Math.abs(ORDER.indexOf(one) - ORDER.indexOf(wanted))
  return known.toSorted((a, b) => distance(a) - distance(b) || ORDER.indexOf(b) - ORDER.indexOf(a))[0]
}
