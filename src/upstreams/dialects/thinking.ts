/**
 * What a client asks of a model's thinking, in whichever words: OpenAI's `reasoning_effort`, OpenRouter's `reasoning`
 * (openrouter.ai/docs/use-cases/reasoning-tokens) or Anthropic's `thinking` (platform.claude.com/docs/en/build-with-claude/extended-thinking).
 * Read here alone, so that it means the same to every dialect. Pure.
 */

import { asObject } from '../../domain/json.ts'
import { EFFORTS, type Effort } from '../../domain/models.ts'
import type { CanonicalRequest } from '../../domain/request.ts'
import { UNREQUESTED_REASONING } from '../../domain/task.ts'

export interface ThinkingWish {
  /** Whether to think at all; null where the client leaves that to the model. A no counts before all else that is said. */
  isOn: boolean | null
  /** How much: as it was said, or what the number of tokens stands for. Null where only yes was said, no, or nothing. */
  effort: Effort | null
  /** How much in tokens, above 0; null where that was not said. */
  tokens: number | null
  /** Whether the client is not to read the thoughts: it has refused them, or not asked. */
  isHidden: boolean
}

/** How many tokens an effort stands for at most, as Vertex's OpenAI API has it; beyond them it is `high`. */
export const EFFORT_TOKENS = { minimal: 512, low: 1_024, medium: 8_192, high: 24_576 } as const

export function toThinkingWish(body: CanonicalRequest): ThinkingWish {
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

/** From the least on; where thinking cannot be switched off, `none` is the least that there is. */
const ORDER: readonly string[] = ['none', ...EFFORTS]

/** Of the efforts that a model knows the nearest one, of two that are as near the higher; undefined where it knows none. Pure. */
export function toNearestEffort(wanted: Effort | 'none', known: readonly Effort[]): Effort | undefined {
  const distance = (one: Effort) => Math.abs(ORDER.indexOf(one) - ORDER.indexOf(wanted))
  return known.toSorted((a, b) => distance(a) - distance(b) || ORDER.indexOf(b) - ORDER.indexOf(a))[0]
}
