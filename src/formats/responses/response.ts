/** The response object: with what it repeats of its request, its output and what it cost. Pure. */
import type { AnswerOrigin, FinishReason } from '../../domain/events.ts'
import { toLine } from '../../domain/json.ts'
import { type Receipt, toUsd } from '../../domain/usage.ts'
import type { Identity } from '../format.ts'
import type { Asked } from './asked.ts'
import type { OutputItem } from './wire.ts'

/** How it stands with an answer. */
export interface Standing {
  output: readonly OutputItem[]
  origin: AnswerOrigin
  /** Why it ended; null while it goes on. */
  reason?: FinishReason | null
  /** What it failed with. */
  error?: { code: string; message: string }
  /** Once it has ended. */
  receipt?: Receipt
}

/** As JSON text, one line to everyone. */
export function toResponseJson(asked: Asked, { id, created, model }: Identity, standing: Standing): string {
  const { output, origin, reason = null, error, receipt } = standing
  const cut = CUTS.get(reason)
  const response = {
    id: `resp_${id}`,
    object: 'response',
    created_at: created,
    completed_at: receipt && !cut ? created + Math.floor(receipt.durationMs / 1_000) : null,
    status: toStatus(standing),
    error: error ?? null,
    incomplete_details: cut ? { reason: cut } : null,
    model,
    service_tier: origin.service_tier ?? 'default',
    output,
  }
  const usage = receipt ? toUsageJson(receipt) : null
  return `${toLine(response).slice(0, -1)},${asked.echoJson},"usage":${usage}}`
}

/** Why an answer is not complete, in the API's words. */
const CUTS: ReadonlyMap<FinishReason | null, string> = new Map<FinishReason | null, string>([
  ['length', 'max_output_tokens'],
  ['content_filter', 'content_filter'],
])

function toStatus({ error, receipt, reason = null }: Standing): string {
  if (error) return 'failed'
  if (!receipt) return 'in_progress'
  return CUTS.has(reason) ? 'incomplete' : 'completed'
}

/** As JSON text, because `cost` has no exponent on the wire, which JSON.stringify gives every amount under a millionth. */
function toUsageJson({ usage, costNanoUsd }: Receipt): string {
  const counts = {
    input_tokens: usage.prompt,
    input_tokens_details: {
      cached_tokens: usage.cacheRead,
      cache_write_tokens: usage.cacheWrite + usage.cacheWrite1h,
    },
    output_tokens: usage.completion,
    output_tokens_details: { reasoning_tokens: usage.reasoning },
    total_tokens: usage.prompt + usage.completion,
    cost_nano_usd: costNanoUsd,
  }
  return `${JSON.stringify(counts).slice(0, -1)},"cost":${toUsd(costNanoUsd)}}`
}
