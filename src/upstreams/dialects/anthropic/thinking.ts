/**
 * Whether and how a model is to think: as the client asks, in whichever words, of what its route says that it can. Where a
 * client says nothing, nothing is sent; where it says no, that is, for some models think by themselves. Pure.
 */

import type { Effort } from '../../../domain/models.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { type ThinkingWish, toThinkingWish } from '../../../domain/thinking.ts'
import { toNearestEffort } from '../nearest-effort.ts'
import type { WireThinking } from './wire.ts'

export interface Thinking {
  thinking?: WireThinking
  effort?: Effort
  /** Whether a tool was to be called, which a model that thinks whatever it is told cannot be made to. */
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
  const wish = toThinkingWish(body)
  const kind = options.thinking ?? (features.includes('reasoning') ? 'adaptive' : 'none')
  if (kind === 'none') return {}
  const canStop = options.thinking_off !== false
  const isUnasked = options.thinking_unasked !== false
  const adaptive = kind === 'adaptive' && wish.isOn !== null ? toAdaptive(wish, options.efforts ?? USUAL) : null
  if (around.isForced) {
    if (canStop && (wish.isOn !== null || options.thinking_off)) return { thinking: { type: 'disabled' } }
    return canStop || !isUnasked ? {} : { ...adaptive, mayNotForce: true }
  }
  if (wish.isOn === null) return {}
  if (!wish.isOn && canStop) return { thinking: { type: 'disabled' } }
  if (!wish.isOn && !isUnasked) return {}
  if (adaptive) return adaptive
  // A turn that thinks by a budget must begin with what was thought (400 otherwise).
  if (around.hasForgotten || around.cap <= LEAST) return {}
  const asked = wish.tokens ?? around.cap * SHARES[wish.effort ?? 'medium']
  const budget = Math.min(Math.max(LEAST, Math.floor(asked)), around.cap - 1)
  return { thinking: { type: 'enabled', budget_tokens: budget } }
}

function toAdaptive({ isOn, effort, isHidden }: ThinkingWish, efforts: readonly Effort[]): Thinking {
  const thinking: WireThinking = { type: 'adaptive', display: isHidden ? 'omitted' : 'summarized' }
  const wanted = isOn ? effort : 'none'
  const nearest = wanted === null ? undefined : toNearestEffort(wanted, efforts)
  return nearest === undefined ? { thinking } : { thinking, effort: nearest }
}
