/** Writes the `usage` of an answer from what the ledger row says, so that both always show the same sums. Pure. */
import { type Receipt, toUsd } from '../../domain/usage.ts'
import type { WireUsage } from './wire.ts'

/** As JSON text, because `cost` has no exponent on the wire, which JSON.stringify gives every amount under a millionth. */
export function toUsageJson({ usage, costNanoUsd }: Receipt): string {
  const cacheWrite = usage.cacheWrite + usage.cacheWrite1h
  const counts: Omit<WireUsage, 'cost'> = {
    prompt_tokens: usage.prompt,
    completion_tokens: usage.completion,
    total_tokens: usage.prompt + usage.completion,
    prompt_tokens_details: {
      cached_tokens: usage.cacheRead,
      ...(cacheWrite > 0 ? { cache_write_tokens: cacheWrite } : {}),
    },
    completion_tokens_details: { reasoning_tokens: usage.reasoning },
    cost_nano_usd: costNanoUsd,
  }
  return `${JSON.stringify(counts).slice(0, -1)},"cost":${toUsd(costNanoUsd)}}`
}
