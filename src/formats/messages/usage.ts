/** What a request used and cost, as clients of Anthropic's API read it. Pure. */
import { NO_USAGE, type Receipt, toUsd, type Usage } from '../../domain/usage.ts'
import type { WireUsage } from './wire.ts'

/** As JSON text, because `cost` has no exponent on the wire, which JSON.stringify gives every amount under a millionth. */
export function toUsageJson({ usage, costNanoUsd }: Receipt, isPriority: boolean): string {
  const wire = JSON.stringify(toWire(usage, isPriority)).slice(0, -1)
  return `${wire},"cost_nano_usd":${costNanoUsd},"cost":${toUsd(costNanoUsd)}}`
}

/** Before an answer: only what its prompt is estimated at. */
export const toFirstUsage = (promptTokens: number): WireUsage => toWire({ ...NO_USAGE, prompt: promptTokens }, false)

function toWire(usage: Usage, isPriority: boolean): WireUsage {
  const { prompt, cacheRead, cacheWrite, cacheWrite1h, completion, reasoning, webSearches } = usage
  const written = cacheWrite + cacheWrite1h
  return {
    input_tokens: Math.max(0, prompt - cacheRead - written),
    cache_creation_input_tokens: written,
    cache_read_input_tokens: cacheRead,
    cache_creation: { ephemeral_5m_input_tokens: cacheWrite, ephemeral_1h_input_tokens: cacheWrite1h },
    output_tokens: completion,
    output_tokens_details: reasoning > 0 ? { thinking_tokens: reasoning } : null,
    server_tool_use: webSearches > 0 ? { web_search_requests: webSearches, web_fetch_requests: 0 } : null,
    service_tier: isPriority ? 'priority' : 'standard',
    inference_geo: null,
    speed: null,
    iterations: null,
    fallback_credit: null,
  }
}
