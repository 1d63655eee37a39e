/**
 * What the ledger is told: whole rows, so that applying one twice or out of order changes nothing. A spool line holds
 * exactly one of these records.
 */
import type { calls, requests } from '../store/sqlite/schema.ts'

type Row = typeof requests.$inferSelect
type CallRow = typeof calls.$inferSelect

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

/** Why a further call is made. */
type Reason = 'retry' | 'fallback' | 'limit' | 'fan_out' | 'schema'

/**
 * A further call of a request, from its second on, as it stands before it is made. The first one stands inline in the
 * request's row, and what that row has reserved is the first call's alone.
 */
export type OpenCall = Pick<
  CallRow,
  | 'requestId'
  | 'number'
  | 'instance'
  | 'upstream'
  | 'upstreamModel'
  | 'createdMs'
  | 'reservedPromptTokens'
  | 'reservedCompletionTokens'
  | 'reservedNanoUsd'
  | 'priceId'
> & { reason: Reason }

/** How a further call ended. It is told with the outcome of its request, which contains it. */
export type SettledCall = OpenCall & Omit<Outcome, 'attempts'>

export type ClosedCall = OpenCall & Omit<ClosedRow, keyof OpenRow | 'attempts'>

/** `calls` are all further calls of the request; absent where there was none. */
export type LedgerRecord =
  | { kind: 'open'; row: OpenRow }
  | { kind: 'call'; call: OpenCall }
  | { kind: 'settle'; row: SettledRow; calls?: readonly SettledCall[] }

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

const openCall = {
  requestId: true,
  number: true,
  instance: true,
  reason: true,
  upstream: true,
  upstreamModel: true,
  createdMs: true,
  reservedPromptTokens: true,
  reservedCompletionTokens: true,
  reservedNanoUsd: true,
  priceId: true,
} satisfies Record<keyof OpenCall, true>

export const OPEN_FIELDS = Object.keys(open) as (keyof OpenRow)[]
export const OUTCOME_FIELDS = Object.keys(outcome) as (keyof Outcome)[]
export const OPEN_CALL_FIELDS = Object.keys(openCall) as (keyof OpenCall)[]
export const CLOSED_CALL_FIELDS: readonly (keyof ClosedCall)[] = [
  ...OPEN_CALL_FIELDS,
  ...OUTCOME_FIELDS.filter((field) => field !== 'attempts'),
]

/**
 * A request that no living instance will settle, with its further calls: it costs what those of its calls had reserved
 * that may have cost something, and names the upstream of the last of them.
 *
 * @param further all its calls from the second on, by number.
 */
export function toAbandoned(row: OpenRow, further: readonly OpenCall[]): { row: ClosedRow; calls: ClosedCall[] } {
  const { upstream, upstreamModel, priceId } = further.at(-1) ?? row
  const first = { ...row, reason: null }
  const standing = new Set<Reserve>(toStanding<Reserve & { reason: Reason | null }>([first, ...further]))
  return {
    row: { ...row, upstream, upstreamModel, priceId, ...givenUp([...standing]), attempts: 1 + further.length },
    calls: further.map((call) => (standing.has(call) ? toAbandonedCall(call) : { ...call, ...givenUp([]) })),
  }
}

/**
 * Of the calls of a request, by number, those that may have cost something: what a retry or a fallback was made in the
 * place of had failed by then. Of several at a time nobody knows which one it was.
 */
function toStanding<T extends { reason: Reason | null }>(calls: readonly T[]): T[] {
  const standing: T[] = []
  let together: T[] = []
  for (const call of calls) {
    if (call.reason === 'retry' || call.reason === 'fallback') {
      standing.push(...(together.some(({ reason }) => reason === 'fan_out') ? together : together.slice(0, -1)))
      together = []
    }
    together.push(call)
  }
  return [...standing, ...together]
}

/** The row of a further call whose request is not there. */
export const toAbandonedCall = (call: OpenCall): ClosedCall => ({ ...call, ...givenUp([call]) })

type Reserve = Pick<Row, 'reservedPromptTokens' | 'reservedCompletionTokens' | 'reservedNanoUsd'>

const givenUp = (reserves: readonly Reserve[]) => ({
  status: 'abandoned' as const,
  httpStatus: null,
  errorCode: 'abandoned',
  durationMs: null,
  firstTokenMs: null,
  promptTokens: sumOf(reserves, 'reservedPromptTokens'),
  cachedTokens: 0,
  cacheWriteTokens: 0,
  completionTokens: sumOf(reserves, 'reservedCompletionTokens'),
  reasoningTokens: 0,
  estimated: 1,
  costNanoUsd: sumOf(reserves, 'reservedNanoUsd'),
  upstreamRequestId: null,
})

const sumOf = (reserves: readonly Reserve[], field: keyof Reserve) =>
  reserves.reduce((sum, reserve) => sum + reserve[field], 0)

/**
 * What is kept of an outcome whose answer was withheld, because nothing could record it in time: what it cost. Its calls
 * went as they went.
 */
export function toWithheld(row: SettledRow): SettledRow {
  if (row.status !== 'ok') return row
  const end = row.stream ? ({ status: 'cut' } as const) : ({ status: 'failed', httpStatus: 503 } as const)
  return { ...row, ...end, errorCode: 'ledger_unavailable' }
}
