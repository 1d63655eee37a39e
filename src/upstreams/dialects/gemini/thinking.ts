/**
 * How much a Gemini model is to think: by a level or by a number of tokens, never both, which is refused
 * (ai.google.dev/gemini-api/docs/thinking). By which, its route says; where it says nothing, by level, as every model since
 * Gemini 3 is told. Pure.
 */

import type { Effort, RouteSettings } from '../../../domain/models.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import { EFFORT_TOKENS, type ThinkingWish, toThinkingWish } from '../../../domain/thinking.ts'
import { toNearestEffort } from '../nearest-effort.ts'
import type { ThinkingConfig } from './wire.ts'

/** What every model since Gemini 3 knows. */
const LEVELS: NonNullable<RouteSettings['efforts']> = ['low', 'medium', 'high']
/** What every model takes that is told a number. */
const MIN_BUDGET = EFFORT_TOKENS.minimal
const MAX_BUDGET = EFFORT_TOKENS.high
const BUDGETS: Record<Effort, number> = { ...EFFORT_TOKENS, xhigh: MAX_BUDGET, max: MAX_BUDGET }

/** Undefined where there is nothing to say. */
export function toThinking(body: CanonicalRequest, options: RouteSettings): ThinkingConfig | undefined {
  if (options.thinking === 'none') return undefined
  const wish = toThinkingWish(body)
  const isByTokens = options.thinking === 'budget'
  const control = isByTokens ? toBudget(wish, options) : toLevel(wish, options)
  // Without it the thoughts are paid for and not shown: who has refused them, or cannot be without, reads none.
  return { ...(wish.isHidden || control.thinkingBudget === 0 ? {} : { includeThoughts: true }), ...control }
}

function toBudget({ isOn, effort, tokens }: ThinkingWish, { thinking_off: canBeOff }: RouteSettings): ThinkingConfig {
  if (isOn === false) return { thinkingBudget: canBeOff ? 0 : MIN_BUDGET }
  if (tokens !== null) return { thinkingBudget: Math.min(Math.max(tokens, MIN_BUDGET), MAX_BUDGET) }
  return effort === null ? {} : { thinkingBudget: BUDGETS[effort] }
}

function toLevel({ isOn, effort }: ThinkingWish, { efforts = LEVELS }: RouteSettings): ThinkingConfig {
  const wanted = isOn === false ? 'none' : effort
  const level = wanted === null ? undefined : toNearestEffort(wanted, efforts)
  return level === undefined ? {} : { thinkingLevel: level }
}
