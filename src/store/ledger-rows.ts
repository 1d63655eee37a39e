/**
 * The rows of the ledger: whole, so that applying one twice or out of order changes nothing. A line of the journal holds exactly one
 * record of them. And what becomes of requests and calls that nobody will settle: they cost what they had reserved. Pure.
 */

import { type EndedCall, fromEndedBefore, joinTerms, sumOfCounts, USUAL_TERMS } from '../domain/ended-calls.ts'
import { fromFirstCall, toFirstCall } from '../domain/first-call.ts'
import type { calls, outcomeColumns, requests } from './sqlite/ledger-schema.ts'

type Row = typeof requests.$inferSelect
type CallRow = typeof calls.$inferSelect
type OutcomeField = keyof ReturnType<typeof outcomeColumns>
/** What the end of a request has beside that of a call. */
type RequestField = 'attempts' | 'firstCall'

/** A request, and an additional call of one, as they are on record, however they stand. */
export type StoredRequest = Row
export type StoredCall = CallRow

/** A request as it stands before any upstream sees it. What it reserved is what it costs if nobody ever settles it. */
export type OpenRow = Omit<Row, OutcomeField | RequestField>

/** How a request ended. Tokens and cost are the sums over its calls; `estimated` where some count is ours. */
export type Outcome = Omit<Pick<Row, OutcomeField | RequestField>, 'status'> & { status: 'ok' | 'failed' | 'cut' }

export type SettledRow = OpenRow & Outcome

/** A settled row, or one that was given up at a start because its instance is gone. */
export type ClosedRow = OpenRow & Omit<Outcome, 'status'> & { status: Outcome['status'] | 'abandoned' }

/** Why an additional call is made. `within`: the upstream made it of another model, within a call of ours that it has charged for. */
export type AdditionalReason = 'retry' | 'fallback' | 'limit' | 'fan_out' | 'schema' | 'within'

/**
 * An additional call of a request, from its second on, as it stands before it is made. The first one stands inline in the
 * request's row, and what that row has reserved is the first call's alone.
 */
export type OpenCall = Omit<CallRow, OutcomeField | 'reason'> & { reason: AdditionalReason }

/** How an additional call ended. It is told with the outcome of its request, which contains it. */
export type SettledCall = OpenCall & Omit<Outcome, RequestField>

export type ClosedCall = OpenCall & Omit<ClosedRow, keyof OpenRow | RequestField>

/**
 * A request or an additional call that is open, with what it holds by now: never less than before. Whoever knows it already changes its
 * reserve alone. `heldNanoUsd` is what it held before.
 */
export type Growth =
  | { kind: 'open'; row: OpenRow; heldNanoUsd: number }
  | { kind: 'call'; call: OpenCall; heldNanoUsd: number }

/** `calls` are all additional calls of the request; absent where there was none. */
export type LedgerRecord =
  | { kind: 'open'; row: OpenRow }
  | { kind: 'call'; call: OpenCall }
  | Growth
  | { kind: 'settle'; row: SettledRow; calls?: readonly SettledCall[] }

/**
 * A request that no living instance will settle, with its additional calls: it costs what those of them came to that are on record as
 * ended, and of the others what they had reserved. It names the target of the last of them.
 *
 * @param additional all its calls from the second on, by number.
 */
export function toAbandoned(
  row: OpenRow & Partial<Pick<ClosedRow, 'firstCall'>>,
  additional: readonly OpenCall[],
): { row: ClosedRow; calls: ClosedCall[] } {
  const { upstream, upstreamModel, lane, priceId } = additional.at(-1) ?? row
  const ended = new Map(
    additional.flatMap(({ endedBefore }) => fromEndedBefore(endedBefore).map((call) => [call.number, call])),
  )
  const first = toEnd(row, ended.get(1))
  const calls = additional.map((call) => ({ ...call, ...toEnd(call, ended.get(call.number)) }))
  const attempts = 1 + additional.length
  // A row that was given up before names its last call then.
  const target = row.firstCall ? fromFirstCall(row.firstCall) : row
  const firstCall = attempts > 1 ? toFirstCall({ ...target, ...first }) : null
  const all = [first, ...calls]
  const sums = { ...sumOfCounts(all), ...joinTerms(all) }
  return { row: { ...row, upstream, upstreamModel, lane, priceId, ...GIVEN_UP, ...sums, attempts, firstCall }, calls }
}

/** The row of an additional call whose request is not there. */
export const toAbandonedCall = (call: OpenCall): ClosedCall => ({ ...call, ...toEnd(call, undefined) })

type Reserve = Pick<OpenRow, 'reservedPromptTokens' | 'reservedCompletionTokens' | 'reservedNanoUsd'>

/** How a call has ended, as far as that is known. */
function toEnd(reserve: Reserve, ended: EndedCall | undefined) {
  if (ended) return { ...NOTHING_USED, ...ended.counts, ...ended.terms, status: ended.status, errorCode: null }
  return {
    ...GIVEN_UP,
    promptTokens: reserve.reservedPromptTokens,
    completionTokens: reserve.reservedCompletionTokens,
    costNanoUsd: reserve.reservedNanoUsd,
  }
}

/** What is on record of a call that nobody has the outcome of, or that was never made. */
const NOTHING_USED = {
  ...{ httpStatus: null, durationMs: null, firstTokenMs: null },
  ...{ ...sumOfCounts([]), estimated: 0, ...USUAL_TERMS },
  ...{ upstreamRequestId: null, credential: null },
}

const GIVEN_UP = { ...NOTHING_USED, status: 'abandoned', errorCode: 'abandoned', estimated: 1 } as const

/** The end of a request that was turned away although its row was written: nothing was asked of anybody. */
export function toRefused(row: OpenRow): SettledRow {
  const end = {
    status: 'failed',
    httpStatus: 503,
    errorCode: 'ledger_unavailable',
    attempts: 1,
    firstCall: null,
  } as const
  return { ...row, ...NOTHING_USED, ...end }
}
