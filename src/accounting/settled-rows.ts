/** The ledger rows of a request that has ended, and of its calls. Most requests make one call, and have one row. */
import { joinTerms } from '../domain/call-counts.ts'
import { UpstreamError } from '../domain/error.ts'
import { addUsage, NO_USAGE } from '../domain/usage.ts'
import type { OpenCall, OpenRow, SettledCall, SettledRow } from '../store/ledger-rows.ts'
import { type Bill, toBilled, toReportedBill } from './bill.ts'
import type { Call } from './call.ts'

/** The sums over the calls of a request, and over what other models come to within them: each is rounded separately. */
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

/** The outcomes of all calls; behind them what other models come to within any of them. */
export function toSettledCalls(row: OpenRow, calls: readonly Call[], bills: readonly Bill[]): SettledCall[] {
  const all = calls.flatMap((call, at) =>
    bills[at] ? [{ bill: bills[at], made: toSettledCall(row, call, bills[at]) }] : [],
  )
  const settled = all.map(({ made }) => made)
  let number = 1 + Math.max(...calls.map((call) => call.number))
  for (const { made, bill } of all) {
    for (const { upstreamModel, priceId, ...used } of bill.within)
      settled.push({
        ...{ ...made, number: number++, reason: 'within', upstreamModel, priceId },
        ...{ reservedPromptTokens: 0, reservedCompletionTokens: 0, reservedNanoUsd: 0 },
        ...{ firstTokenMs: null, upstreamRequestId: null },
        ...toBilled(used),
      })
  }
  return settled
}

const toSettledCall = (row: OpenRow, call: Call, bill: Bill): SettledCall => ({
  ...(call.row ?? toFirstRow(row, call)),
  ...toEnd(call, bill),
  ...toBilled(bill),
})

/** Of the first call, whose reserve stands in the row of its request. */
const toFirstRow = (row: OpenRow, { target, lane }: Call): OpenCall => ({
  ...{ requestId: row.id, number: 1, instance: row.instance, reason: 'first', createdMs: row.createdMs },
  ...{ upstream: target.upstream.id, upstreamModel: target.upstreamModel, lane, priceId: target.priceId },
  reservedPromptTokens: row.reservedPromptTokens,
  reservedCompletionTokens: row.reservedCompletionTokens,
  reservedNanoUsd: row.reservedNanoUsd,
})

/** What a call that has ended is charged; null where it is under way, or where what it came to must first be counted. */
export function toEndedBill(call: Call): Bill | null {
  const { outcome } = call.meter
  return outcome && toReportedBill(call, outcome)
}

/** The row of a call that has ended, so that a kill charges no more for it; null for one that several models worked in, which a kill charges in full. */
export function toEndedCall(row: OpenRow, call: Call): SettledCall | null {
  const bill = toEndedBill(call)
  return bill === null || bill.within.length > 0 ? null : toSettledCall(row, call, bill)
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

type Ending = Pick<SettledRow, 'status' | 'httpStatus' | 'errorCode' | 'durationMs' | 'firstTokenMs' | 'attempts'>

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
  }
}
