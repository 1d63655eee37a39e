/**
 * What stands on record of a request that has ended, and of each of its calls. Most requests make one call, and their row says it all.
 */
import { type EndedCall, joinTerms, sumOfCounts, USUAL_TERMS } from '../domain/ended-calls.ts'
import { UpstreamError } from '../domain/error.ts'
import { toFirstCall } from '../domain/first-call.ts'
import { addUsage, NO_USAGE } from '../domain/usage.ts'
import type { OpenRow, SettledCall, SettledRow } from '../store/ledger-rows.ts'
import { type Bill, toBilled, toReportedBill, type WithinBill } from './bill.ts'
import type { Call } from './call.ts'

/** The sums over the calls of a request, and over what other models come to within them: each is rounded by itself. */
export function addBills(bills: readonly Bill[]): Omit<Bill, 'status' | 'within'> {
  const sum = { usage: { ...NO_USAGE }, estimated: false, costNanoUsd: 0 }
  for (const { usage, estimated, costNanoUsd } of bills.flatMap((bill) => [bill, ...bill.within])) {
    addUsage(sum.usage, usage)
    sum.estimated ||= estimated
    sum.costNanoUsd += costNanoUsd
  }
  const { unpriced, ...terms } = joinTerms(bills.flatMap((bill) => [...bill.within, bill].map(toBilled)))
  return { ...sum, ...terms, isUnpriced: unpriced > 0 }
}

/** Whether the request's row alone says all that there is to say. */
export const isAlone = (bills: readonly Bill[]): boolean =>
  bills.length === 0 || (bills.length === 1 && bills[0]?.within.length === 0)

/** The outcomes of all calls but the first, which stands inline; behind them what other models come to within any of them. */
export function toSettledCalls(row: OpenRow, calls: readonly Call[], bills: readonly Bill[]): SettledCall[] {
  const all = calls.flatMap((call, at) => (bills[at] ? [{ call, bill: bills[at] }] : []))
  const settled = all.flatMap(({ call, bill }) =>
    call.row ? [{ ...call.row, ...toEnd(call, bill), ...toBilled(bill) }] : [],
  )
  let number = 1 + Math.max(...calls.map((call) => call.number))
  for (const { call, bill } of all) {
    const { upstream } = call.target
    const of = { upstream: upstream.id, lane: call.lane, createdMs: (call.row ?? row).createdMs }
    settled.push(...toWithinRows({ ...of, ...toEnd(call, bill) }, row, bill.within, number))
    number += bill.within.length
  }
  return settled
}

/** Its rows in `calls`, behind those of the calls that were made. @param number of the first of them. */
function toWithinRows(
  call: Pick<
    SettledRow,
    'upstream' | 'lane' | 'createdMs' | 'status' | 'httpStatus' | 'errorCode' | 'durationMs' | 'credential'
  >,
  request: Pick<SettledRow, 'id' | 'instance'>,
  bills: readonly WithinBill[],
  number: number,
): SettledCall[] {
  const { upstream, lane, createdMs, status, httpStatus, errorCode, durationMs, credential } = call
  return bills.map((bill, at) => ({
    ...{ requestId: request.id, number: number + at, instance: request.instance, endedBefore: null },
    ...{ reason: 'within' as const, upstream, upstreamModel: bill.upstreamModel, lane, priceId: bill.priceId },
    ...{ createdMs, reservedPromptTokens: 0, reservedCompletionTokens: 0, reservedNanoUsd: 0 },
    ...{ status, httpStatus, errorCode, durationMs, firstTokenMs: null, upstreamRequestId: null, credential },
    ...toBilled(bill),
  }))
}

/** What the request's row, which names its last target, has to say of its first call; null where that is the only one. */
export function toFirst(calls: readonly Call[], bills: readonly Bill[]): string | null {
  const [call] = calls
  const [bill] = bills
  if (!call || !bill) return null
  const { upstream, upstreamModel, priceId } = call.target
  const target = { upstream: upstream.id, upstreamModel, lane: call.lane, priceId }
  const { estimated, mode, reportedNanoUsd, unpriced } = toBilled(bill)
  return toFirstCall({ ...target, ...toEnd(call, bill), estimated, mode, reportedNanoUsd, unpriced })
}

/** What a call that has ended is charged; null where it is under way, or where what it came to must first be counted. */
export function toEndedBill(call: Call): Bill | null {
  const { outcome } = call.meter
  return outcome && toReportedBill(call, outcome)
}

/** The same as a later call's row tells it, so that a kill charges no more for it. Such a record has room for one model a call: null for several. */
export function toEndedCall(call: Call): EndedCall | null {
  const { number } = call
  const bill = toEndedBill(call)
  if (bill === null || bill.within.length > 0) return null
  if (bill.status !== 'ok') return { number, status: 'failed', counts: sumOfCounts([]), terms: USUAL_TERMS }
  const { estimated: _, mode, reportedNanoUsd, unpriced, ...counts } = toBilled(bill)
  return { number, status: 'ok', counts, terms: { mode, reportedNanoUsd, unpriced } }
}

/** How a call ended, as its row says it. */
function toEnd({ meter }: Call, { status }: Bill) {
  const error = meter.error instanceof UpstreamError ? meter.error : null
  // Nobody tells why a call is aborted: it is no longer wanted.
  const reason = error?.kind ?? (meter.error === null ? 'aborted' : 'internal')
  return {
    status,
    httpStatus: status === 'ok' ? 200 : (error?.status ?? null),
    errorCode: status === 'ok' ? null : reason,
    durationMs: meter.durationMs,
    firstTokenMs: meter.firstTokenMs,
    upstreamRequestId: meter.upstreamRequestId,
    credential: meter.credential,
  }
}

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
