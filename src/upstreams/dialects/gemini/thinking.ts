/**
 * How much a Gemini model is to think: by a level or by a number of tokens, never both, which is refused
 * (ai.google.dev/gemini-api/docs/thinking). By which, its route says; where it says nothing, by level, as every model since
 * Gemini 3 is told. Pure.
 */
import { asObject, asText } from '../../../domain/json.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import type { RouteSettings } from '../../../domain/settings.ts'
import { ORDER, toNearestEffort } from '../nearest-effort.ts'
import type { ThinkingConfig } from './wire.ts'

/** What every model since Gemini 3 knows. */
const LEVELS: NonNullable<RouteSettings['efforts']> = ['low', 'medium', 'high']
/** What every model takes that is told a number. */
const MIN_BUDGET = 512
const MAX_BUDGET = 24_576
/** Those of Vertex's own OpenAI endpoint. */
const BUDGETS: Readonly<Record<string, number>> = { minimal: MIN_BUDGET, low: 1_024, medium: 8_192, high: MAX_BUDGET }

/** What a client asks for, by the field of OpenAI's format or by the `reasoning` of OpenRouter's. */
interface Wish {
  effort: string | null
  tokens: number | null
  isHidden: boolean
}

/** Undefined where there is nothing to say. */
export function toThinking(body: CanonicalRequest, options: RouteSettings): ThinkingConfig | undefined {
  if (options.thinking === 'none') return undefined
  const wish = toWish(body)
  const isByTokens = options.thinking === 'budget'
  const control = isByTokens ? toBudget(wish, options) : toLevel(wish, options)
  // Without it the thoughts are paid for and not shown.
  return { ...(wish.isHidden || control.thinkingBudget === 0 ? {} : { includeThoughts: true }), ...control }
}

function toWish(body: CanonicalRequest): Wish {
  const reasoning = asObject(Reflect.get(body, 'reasoning')) ?? {}
  const { max_tokens: tokens, enabled, exclude } = reasoning
  const effort = body.reasoning_effort ?? (asText(reasoning.effort) || (enabled === false ? 'none' : null))
  return {
    effort: effort !== null && ORDER.includes(effort) ? effort : null,
    tokens: typeof tokens === 'number' && tokens >= 0 ? Math.round(tokens) : null,
    isHidden: exclude === true,
  }
}

function toBudget({ effort, tokens }: Wish, { thinking_off: canBeOff }: RouteSettings): ThinkingConfig {
  if (effort === 'none' || tokens === 0) return { thinkingBudget: canBeOff ? 0 : MIN_BUDGET }
  if (tokens !== null) return { thinkingBudget: Math.min(Math.max(tokens, MIN_BUDGET), MAX_BUDGET) }
  return effort === null ? {} : { thinkingBudget: BUDGETS[effort] ?? MAX_BUDGET }
}

function toLevel({ effort, tokens }: Wish, { efforts = LEVELS }: RouteSettings): ThinkingConfig {
  const wanted = effort ?? (tokens === null ? null : toEffort(tokens))
  if (wanted === null) return {}
  const level = toNearestEffort(wanted, efforts)
  return level === undefined ? {} : { thinkingLevel: level }
}

const toEffort = (tokens: number) => Object.entries(BUDGETS).find(([, budget]) => tokens <= budget)?.[0] ?? 'high'
