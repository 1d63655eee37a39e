/**
 * What the ledger is told: whole rows, so that applying one twice or out of order changes nothing. A spool line holds
 * exactly one of these records.
 */
import type { requests } from '../store/schema.ts'

type Row = typeof requests.$inferSelect

/** A request as it stands before any backend sees it. What it reserved is what it costs if nobody ever settles it. */
export type OpenRow = Pick<
  Row,
  | 'id'
  | 'instance'
  | 'keyId'
  | 'model'
  | 'upstream'
  | 'upstreamModel'
  | 'stream'
  | 'createdMs'
  | 'reservedPromptTokens'
  | 'reservedCompletionTokens'
  | 'reservedNanoUsd'
  | 'priceId'
  | 'user'
>

/** How a request ended. Tokens and cost are the sums over its calls; `estimated` where some count is ours. */
export type Outcome = Pick<
  Row,
  | 'httpStatus'
  | 'errorCode'
  | 'durationMs'
  | 'firstTokenMs'
  | 'promptTokens'
  | 'cachedTokens'
  | 'cacheWriteTokens'
  | 'completionTokens'
  | 'reasoningTokens'
  | 'estimated'
  | 'costNanoUsd'
  | 'upstreamRequestId'
  | 'attempts'
> & { status: 'ok' | 'failed' | 'cut' }

export type SettledRow = OpenRow & Outcome

/** A settled row, or one that was given up at a start because its instance is gone. */
export type ClosedRow = OpenRow & Omit<Outcome, 'status'> & { status: Outcome['status'] | 'abandoned' }

export type LedgerRecord = { kind: 'open'; row: OpenRow } | { kind: 'settle'; row: SettledRow }

const open = {
  id: true,
  instance: true,
  keyId: true,
  model: true,
  upstream: true,
  upstreamModel: true,
  stream: true,
  createdMs: true,
  reservedPromptTokens: true,
  reservedCompletionTokens: true,
  reservedNanoUsd: true,
  priceId: true,
  user: true,
} satisfies Record<keyof OpenRow, true>

const outcome = {
  status: true,
  httpStatus: true,
  errorCode: true,
  durationMs: true,
  firstTokenMs: true,
  promptTokens: true,
  cachedTokens: true,
  cacheWriteTokens: true,
  completionTokens: true,
  reasoningTokens: true,
  estimated: true,
  costNanoUsd: true,
  upstreamRequestId: true,
  attempts: true,
} satisfies Record<keyof Outcome, true>

export const OPEN_FIELDS = Object.keys(open) as (keyof OpenRow)[]
export const OUTCOME_FIELDS = Object.keys(outcome) as (keyof Outcome)[]

/** The row of a request that no living instance will settle: it costs what it had reserved. */
export function toAbandoned(row: OpenRow): ClosedRow {
  return {
    ...row,
    status: 'abandoned',
    httpStatus: null,
    errorCode: 'abandoned',
    durationMs: null,
    firstTokenMs: null,
    promptTokens: row.reservedPromptTokens,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    completionTokens: row.reservedCompletionTokens,
    reasoningTokens: 0,
    estimated: 1,
    costNanoUsd: row.reservedNanoUsd,
    upstreamRequestId: null,
    attempts: 1,
  }
}

/** What is kept of an outcome whose answer was withheld, because nothing could record it in time: what it cost. */
export function toWithheld(row: SettledRow): SettledRow {
  if (row.status !== 'ok') return row
  const end = row.stream ? ({ status: 'cut' } as const) : ({ status: 'failed', httpStatus: 503 } as const)
  return { ...row, ...end, errorCode: 'ledger_unavailable' }
}
