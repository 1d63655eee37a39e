/**
 * The first call of a request that took several, as the ledger keeps it: the request's row names its last target and how all
 * of it ended, and what the first call was stands in one column, which the many requests of one call leave empty. Pure.
 */
import type { Lane } from './task.ts'

/** What of it follows from nothing else: its tokens and cost are what the request has beyond its additional calls. */
export interface FirstCall {
  upstream: string
  upstreamModel: string
  lane: Lane
  priceId: string | null
  status: 'ok' | 'failed' | 'cut' | 'abandoned'
  httpStatus: number | null
  errorCode: string | null
  durationMs: number | null
  firstTokenMs: number | null
  /** 0 or 1. */
  estimated: number
  upstreamRequestId: string | null
  credential: number | null
  mode: string | null
  reportedNanoUsd: number | null
  /** 0 or 1. */
  unpriced: number
}

/** Writes the column `first_call`: JSON under the names that the columns of `calls` have. */
export const toFirstCall = (call: FirstCall): string =>
  JSON.stringify({
    upstream: call.upstream,
    upstream_model: call.upstreamModel,
    lane: call.lane,
    price_id: call.priceId,
    status: call.status,
    http_status: call.httpStatus,
    error_code: call.errorCode,
    duration_ms: call.durationMs,
    first_token_ms: call.firstTokenMs,
    estimated: call.estimated,
    upstream_request_id: call.upstreamRequestId,
    credential: call.credential,
    mode: call.mode,
    reported_nano_usd: call.reportedNanoUsd,
    unpriced: call.unpriced,
  })

/** Reads the column. Of what was written by `toFirstCall` alone. */
export function fromFirstCall(text: string): FirstCall {
  const read = JSON.parse(text)
  return {
    upstream: read.upstream,
    upstreamModel: read.upstream_model,
    lane: read.lane,
    priceId: read.price_id,
    status: read.status,
    httpStatus: read.http_status,
    errorCode: read.error_code,
    durationMs: read.duration_ms,
    firstTokenMs: read.first_token_ms,
    estimated: read.estimated,
    upstreamRequestId: read.upstream_request_id,
    // An older version wrote none of these.
    credential: read.credential ?? null,
    mode: read.mode ?? null,
    reportedNanoUsd: read.reported_nano_usd ?? null,
    unpriced: read.unpriced ?? 0,
  }
}
