/** What a request of several calls comes to, and what is on record of each. Most requests make one call and need neither. */

import { type EndedCall, sumOfCounts } from '../domain/ended-calls.ts'
import { UpstreamError } from '../domain/error.ts'
import { toFirstCall } from '../domain/first-call.ts'
import { costNanoUsd } from '../domain/price.ts'
import { NO_USAGE, type Usage } from '../domain/usage.ts'
import type { SettledCall } from '../store/ledger-rows.ts'
import { type Bill, toBilled } from './bill.ts'
import type { Call } from './call.ts'

/** The sums over the calls of a request: each is rounded by itself. */
export function addBills(bills: readonly Bill[]): Omit<Bill, 'status'> {
  const sum = { usage: { ...NO_USAGE }, estimated: false, costNanoUsd: 0 }
  for (const { usage, estimated, costNanoUsd } of bills) {
    for (const field of COUNTS) sum.usage[field] += usage[field]
    sum.estimated ||= estimated
    sum.costNanoUsd += costNanoUsd
  }
  return sum
}

const COUNTS = Object.keys(NO_USAGE) as (keyof Usage)[]

/** The outcome of an additional call; nothing for the first one, which stands inline. */
export function toSettledCall(call: Call, bill: Bill | undefined): SettledCall[] {
  if (!call.row || !bill) return []
  return [{ ...call.row, ...toEnd(call, bill), ...toBilled(bill) }]
}

/** What the request's row, which names its last target, has to say of its first call; null where that is the only one. */
export function toFirst(calls: readonly Call[], bills: readonly Bill[]): string | null {
  const [call, additional] = calls
  const [bill] = bills
  if (!call || !bill || !additional) return null
  const { upstream, upstreamModel, priceId } = call.target
  const target = { upstream: upstream.id, upstreamModel, lane: 'translated' as const, priceId }
  return toFirstCall({ ...target, ...toEnd(call, bill), estimated: bill.estimated ? 1 : 0 })
}

/** What is known of a call that has ended; null where it is under way, or where what it came to must first be counted. */
export function toEndedCall({ number, target, meter }: Call): EndedCall | null {
  const { isUnpaid, outcome, usage } = meter
  if (isUnpaid) return { number, status: 'failed', counts: sumOfCounts([]) }
  if (outcome !== 'ok' || usage === null) return null
  const bill = { usage, estimated: false, costNanoUsd: costNanoUsd(target.pricing, usage) }
  const { estimated: _, ...counts } = toBilled(bill)
  return { number, status: 'ok', counts }
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
  }
}
