/**
 * Whether and how a model is to think: as the client asks, in whichever words, of what its route says that it can. Where a
 * client says nothing, nothing is sent; where it says no, that is, for some models think by themselves. Pure.
 */
import { asObject } from '../../../domain/json.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import { EFFORTS, type Effort } from '../../../domain/settings.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { toNearestEffort } from '../nearest-effort.ts'
import type { WireThinking } from './wire.ts'

/** What a client asks for; `null` = nothing. */
interface Wanted {
  on: boolean
  effort: Effort | null
  /** Tokens. */
  budget: number | null
  isHidden: boolean
}

export interface Thinking {
  thinking?: WireThinking
  effort?: Effort
  /** Whether a tool was to be called, which a model that cannot stop thinking cannot be made to. */
  mayNotForce?: true
}

export interface Circumstances {
  /** The output cap that is sent. */
  cap: number
  /** Whether it must call a tool. */
  isForced: boolean
  /** Whether the last answer called tools, and none of its thoughts came back. */
  hasForgotten: boolean
}

/** The least that the API takes. */
const LEAST = 1_024
/** What part of the cap is for thinking, as `@ai-sdk/provider-utils` has it. */
const SHARES: Record<Effort, number> = { minimal: 0.02, low: 0.1, medium: 0.3, high: 0.6, xhigh: 0.9, max: 0.9 }
/** Every model that takes an effort knows these. */
const USUAL: readonly Effort[] = ['low', 'medium', 'high', 'max']

export function toThinking(body: CanonicalRequest, { options, features }: Target, around: Circumstances): Thinking {
  const wanted = toWanted(body)
  const kind = options.thinking ?? (features.includes('reasoning') ? 'adaptive' : 'none')
  if (kind === 'none') return {}
  const canStop = options.thinking_off !== false
  if (around.isForced) {
    if (canStop && (wanted !== null || options.thinking_off)) return { thinking: { type: 'disabled' } }
    return canStop ? {} : { mayNotForce: true }
  }
  if (wanted === null) return {}
  if (!wanted.on && canStop) return { thinking: { type: 'disabled' } }
  if (kind === 'adaptive') return toAdaptive(wanted, options.efforts ?? USUAL)
  // A turn that thinks by a budget must begin with what was thought (400 otherwise).
  if (around.hasForgotten || around.cap <= LEAST) return {}
  const asked = wanted.budget ?? around.cap * SHARES[wanted.effort ?? 'medium']
  const budget = Math.min(Math.max(LEAST, Math.floor(asked)), around.cap - 1)
  return { thinking: { type: 'enabled', budget_tokens: budget } }
}

function toAdaptive({ on, effort, isHidden }: Wanted, efforts: readonly Effort[]): Thinking {
  const thinking: WireThinking = { type: 'adaptive', display: isHidden ? 'omitted' : 'summarized' }
  const asked = on ? effort : (efforts[0] ?? null)
  return asked === null ? { thinking } : { thinking, effort: toNearestEffort(asked, efforts) ?? asked }
}

/** OpenAI's field, OpenRouter's object, or Anthropic's own. */
function toWanted(body: CanonicalRequest): Wanted | null {
  const reasoning = asObject(Reflect.get(body, 'reasoning'))
  const thinking = asObject(Reflect.get(body, 'thinking'))
  const effort = body.reasoning_effort ?? reasoning?.effort
  const isHidden = reasoning?.exclude === true || thinking?.display === 'omitted'
  if (effort === 'none' || reasoning?.enabled === false || thinking?.type === 'disabled')
    return { on: false, effort: null, budget: null, isHidden }
  if (effort === undefined && !reasoning && !thinking) return null
  const budget = reasoning?.max_tokens ?? thinking?.budget_tokens
  return {
    on: true,
    effort: EFFORTS.find((one) => one === effort) ?? null,
    budget: typeof budget === 'number' && budget > 0 ? budget : null,
    isHidden,
  }
}
