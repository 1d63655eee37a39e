/** What a call may at most use and cost: reserved before it is made, and charged where nobody ever settles it. Pure. */
import type { Target } from '../domain/snapshot.ts'
import { NO_USAGE, type Usage } from '../domain/usage.ts'
import type { Amount } from '../limits/limiter.ts'
import type { Estimate } from '../tokens/estimate.ts'
import { costNanoUsd } from './price.ts'

/** As the call's row says it. */
export interface Reserve {
  reservedPromptTokens: number
  reservedCompletionTokens: number
  reservedNanoUsd: number
}

export const toReserve = ({ pricing }: Target, { promptTokens, completionTokens }: Estimate): Reserve => ({
  reservedPromptTokens: promptTokens,
  reservedCompletionTokens: completionTokens,
  reservedNanoUsd: toMostNanoUsd(pricing, promptTokens, completionTokens),
})

/** The same as limits are asked for it. */
export const toAmount = (reserve: Reserve): Amount => ({
  tokens: reserve.reservedPromptTokens + reserve.reservedCompletionTokens,
  nanoUsd: reserve.reservedNanoUsd,
})

/** Where they have prices of their own, all of a prompt may be written to a cache, and all of an answer be reasoning. */
function toMostNanoUsd(pricing: Target['pricing'], prompt: number, completion: number): number {
  const costOf = (special: Partial<Usage>) => costNanoUsd(pricing, { ...NO_USAGE, prompt, completion, ...special })
  let most = costOf({})
  if (pricing.every(({ input_cache_write, internal_reasoning }) => !input_cache_write && !internal_reasoning))
    return most
  for (const cacheWrite of [0, prompt]) {
    for (const reasoning of [0, completion]) most = Math.max(most, costOf({ cacheWrite, reasoning }))
  }
  return most
}
