/**
 * The row of a request that has ended. All its fields are written at once, one by one: grown by spreads it costs six times as much and
 * twice its own size in garbage.
 */
import type { OpenRow, SettledRow } from '../store/ledger-rows.ts'
import { type Bill, toBilled } from './bill.ts'
import type { Call } from './call.ts'

type Ending = Pick<
  SettledRow,
  'status' | 'httpStatus' | 'errorCode' | 'durationMs' | 'firstTokenMs' | 'attempts' | 'firstCall'
>

/** @param last its last call, which the row names; undefined where none was made. */
export function toSettledRow(
  open: OpenRow,
  sum: Omit<Bill, 'status' | 'within'>,
  last: Call | undefined,
  ending: Ending,
): SettledRow {
  const billed = toBilled(sum)
  return {
    id: open.id,
    instance: open.instance,
    keyId: open.keyId,
    teamId: open.teamId,
    model: open.model,
    endpoint: open.endpoint,
    lane: last?.lane ?? open.lane,
    upstream: last?.target.upstream.id ?? open.upstream,
    upstreamModel: last?.target.upstreamModel ?? open.upstreamModel,
    stream: open.stream,
    createdMs: open.createdMs,
    reservedPromptTokens: open.reservedPromptTokens,
    reservedCompletionTokens: open.reservedCompletionTokens,
    reservedNanoUsd: open.reservedNanoUsd,
    priceId: last ? last.target.priceId : open.priceId,
    user: open.user,
    status: ending.status,
    httpStatus: ending.httpStatus,
    errorCode: ending.errorCode,
    durationMs: ending.durationMs,
    firstTokenMs: ending.firstTokenMs,
    promptTokens: billed.promptTokens,
    cachedTokens: billed.cachedTokens,
    cacheWriteTokens: billed.cacheWriteTokens,
    cacheWrite1hTokens: billed.cacheWrite1hTokens,
    completionTokens: billed.completionTokens,
    reasoningTokens: billed.reasoningTokens,
    audioPromptTokens: billed.audioPromptTokens,
    audioCompletionTokens: billed.audioCompletionTokens,
    imageTokens: billed.imageTokens,
    imageCompletionTokens: billed.imageCompletionTokens,
    toolPromptTokens: billed.toolPromptTokens,
    webSearches: billed.webSearches,
    computeMs: billed.computeMs,
    estimated: billed.estimated,
    costNanoUsd: billed.costNanoUsd,
    mode: billed.mode,
    reportedNanoUsd: billed.reportedNanoUsd,
    unpriced: billed.unpriced,
    upstreamRequestId: last?.meter.upstreamRequestId ?? null,
    credential: last?.meter.credential ?? null,
    attempts: ending.attempts,
    firstCall: ending.firstCall,
  }
}
