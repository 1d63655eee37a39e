/**
 * What a call costs: by what its upstream reported, or else by a count of what it sent, marked as ours. Where a call was
 * broken off before it was reported, what nobody saw is charged by the time that it took: hanging up early is no discount.
 */

import { costNanoUsd } from '../domain/price.ts'
import type { Target } from '../domain/snapshot.ts'
import { NO_USAGE, type Usage } from '../domain/usage.ts'
import type { Outcome } from '../store/ledger-rows.ts'
import type { Counter } from '../tokens/count.ts'
import { toMostOutput } from '../tokens/estimate.ts'
import type { Call } from './call.ts'

/** What one call used and costs, rounded once. */
export interface Bill {
  status: Outcome['status']
  usage: Usage
  /** Some count of `usage` is ours and not the upstream's. */
  estimated: boolean
  costNanoUsd: number
}

/**
 * Bills one call. A call that its upstream failed at before the first word costs nothing; one that was broken off costs what
 * it had come to; a figure that is missing is counted. Only what must be counted makes it wait.
 * @param requestStatus how its request ends: that of a call that nobody has ended.
 */
export function toBill(
  call: Pick<Call, 'target' | 'body' | 'meter'>,
  requestStatus: Outcome['status'],
  counter: Counter,
  shareId: string,
): Bill | Promise<Bill> {
  const { target, body, meter } = call
  const { outcome, usage } = meter
  const status = outcome ?? (requestStatus === 'ok' ? 'ok' : 'cut')
  if (meter.isUnpaid) return { status, usage: NO_USAGE, estimated: false, costNanoUsd: 0 }
  const isKept = usage !== null && isKeptForHour(call, usage)
  const heard = isKept ? toKeptForHour(usage) : usage
  if (status === 'ok' && heard && meter.isReported) return charge(target, status, heard, isKept)
  return counter.usage(shareId, body, meter.captured()).then((seen) => {
    const known = heard ? toLarger(heard, seen) : seen
    // What is reported before the first word is what was read, and not what is being thought.
    const isHeard = status === 'ok' || (meter.isReported && meter.firstTokenMs !== null)
    return charge(target, status, isHeard ? known : withUnseen(call, known), true)
  })
}

/**
 * Adds what the call may have written and nobody saw, of a whole answer and of a model that thinks in silence: as much as
 * an upstream writes in that time, within the cap that it was sent.
 */
function withUnseen({ target, body, meter }: Pick<Call, 'target' | 'body' | 'meter'>, known: Usage): Usage {
  const thinks = target.features.includes('reasoning') && !meter.hasReasoned
  if (body.stream && !thinks && !meter.isTooLong) return known
  const perSecond = target.upstream.options.max_tokens_per_second * (body.n ?? 1)
  const most = Math.min(toMostOutput(body, target.maxOutputLength), Math.ceil((meter.elapsedMs / 1_000) * perSecond))
  const unseen = Math.max(0, most - known.completion)
  return {
    ...known,
    completion: known.completion + unseen,
    reasoning: known.reasoning + (thinks ? unseen : 0),
  }
}

/** As JSON has it in an object: within a text its quotes would be escaped. */
const FOR_AN_HOUR = '"ttl":"1h"'

/**
 * Whether what a call wrote to a cache costs as kept for an hour: its upstream does not say how long it keeps it, its client
 * has asked for an hour, and that has a price. Few calls write, so that few are looked at.
 */
const isKeptForHour = ({ target, body }: Pick<Call, 'target' | 'body'>, { cacheWrite, cacheWrite1h }: Usage): boolean =>
  cacheWrite > 0 &&
  cacheWrite1h === 0 &&
  target.pricing.some((item) => item.input_cache_write_1h !== undefined) &&
  JSON.stringify(body).includes(FOR_AN_HOUR)

const toKeptForHour = (usage: Usage): Usage => ({ ...usage, cacheWrite: 0, cacheWrite1h: usage.cacheWrite })

function charge({ pricing }: Target, status: Outcome['status'], usage: Usage, estimated: boolean): Bill {
  return { status, usage, estimated, costNanoUsd: costNanoUsd(pricing, usage) }
}

/** What a row of the ledger says of a bill. */
export const toBilled = ({ usage, estimated, costNanoUsd }: Omit<Bill, 'status'>) => ({
  promptTokens: usage.prompt,
  cachedTokens: usage.cacheRead,
  cacheWriteTokens: usage.cacheWrite + usage.cacheWrite1h,
  cacheWrite1hTokens: usage.cacheWrite1h,
  completionTokens: usage.completion,
  reasoningTokens: usage.reasoning,
  audioPromptTokens: usage.audioPrompt,
  audioCompletionTokens: usage.audioCompletion,
  imageTokens: usage.imagePrompt + usage.imageCompletion,
  imageCompletionTokens: usage.imageCompletion,
  estimated: estimated ? 1 : 0,
  costNanoUsd,
})

/** The larger figure counts: some upstreams report while nearly nothing is written, and no more. */
function toLarger(reported: Usage, counted: Usage): Usage {
  const { prompt, audioPrompt, imagePrompt } = reported.prompt > 0 ? reported : counted
  return {
    ...reported,
    ...{ prompt, audioPrompt, imagePrompt },
    completion: Math.max(reported.completion, counted.completion),
    reasoning: Math.max(reported.reasoning, counted.reasoning),
    audioCompletion: Math.max(reported.audioCompletion, counted.audioCompletion),
  }
}
