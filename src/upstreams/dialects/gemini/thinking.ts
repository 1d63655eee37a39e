/**
 * How much a Gemini model is to think: by a level or by a number of tokens, never both, which is refused
 * (ai.google.dev/gemini-api/docs/thinking). By which, its route says; where it says nothing, by level, as every model since
 * Gemini 3 is told. Pure.
 */
import { asObject, asText } from '../../../domain/json.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import type { ThinkingConfig } from './wire.ts'

/** What the catalogue says of the model. */
export interface Thinker {
  thinking?: 'adaptive' | 'budget' | 'none'
  /** The levels that it knows. */
  efforts?: readonly string[]
  /** Whether it can be told not to think. */
  thinking_off?: boolean
}

type Effort = NonNullable<CanonicalRequest['reasoning_effort']>

const EFFORTS: readonly string[] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] satisfies Effort[]
/** What every model since Gemini 3 knows. */
const LEVELS = ['low', 'medium', 'high']
/** What models know that are told a number: from the least of Gemini 2.5 Pro to the most of Gemini 2.5 Flash. */
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
export function toThinking(body: CanonicalRequest, thinker: Thinker): ThinkingConfig | undefined {
  if (thinker.thinking === 'none') return undefined
  const wish = toWish(body)
  const isByTokens = thinker.thinking === 'budget'
  const control = isByTokens ? toBudget(wish, thinker) : toLevel(wish, thinker)
  // Without it the thoughts are paid for and not shown.
  return { ...(wish.isHidden || control.thinkingBudget === 0 ? {} : { includeThoughts: true }), ...control }
}

function toWish(body: CanonicalRequest): Wish {
  const reasoning = asObject(Reflect.get(body, 'reasoning')) ?? {}
  const { max_tokens: tokens, enabled, exclude } = reasoning
  const effort = body.reasoning_effort ?? (asText(reasoning.effort) || (enabled === false ? 'none' : null))
  return {
    effort: effort !== null && EFFORTS.includes(effort) ? effort : null,
    tokens: typeof tokens === 'number' && tokens >= 0 ? Math.round(tokens) : null,
    isHidden: exclude === true,
  }
}

function toBudget({ effort, tokens }: Wish, { thinking_off: canBeOff }: Thinker): ThinkingConfig {
  if (effort === 'none' || tokens === 0) return { thinkingBudget: canBeOff ? 0 : MIN_BUDGET }
  if (tokens !== null) return { thinkingBudget: Math.min(Math.max(tokens, MIN_BUDGET), MAX_BUDGET) }
  return effort === null ? {} : { thinkingBudget: BUDGETS[effort] ?? MAX_BUDGET }
}

function toLevel({ effort, tokens }: Wish, { efforts = LEVELS }: Thinker): ThinkingConfig {
  const wanted = effort ?? (tokens === null ? null : toEffort(tokens))
  if (wanted === null) return {}
  const known = EFFORTS.filter((level) => efforts.includes(level))
  const place = EFFORTS.indexOf(wanted)
  // The least that is no less, or else the most that there is: none of them can be switched off.
  const level = known.find((level) => EFFORTS.indexOf(level) >= place) ?? known.at(-1)
  return level === undefined ? {} : { thinkingLevel: level }
}

const toEffort = (tokens: number) => Object.entries(BUDGETS).find(([, budget]) => tokens <= budget)?.[0] ?? 'high'
