/** What a request of several calls comes to, and the rows of all but its first. Most requests make one call and need neither. */
import { UpstreamError } from '../domain/error.ts'
import { NO_USAGE, type Usage } from '../domain/usage.ts'
import type { SettledCall } from '../store/ledger-rows.ts'
import { type Bill, toBilled } from './bill.ts'
import type { Call } from './calls.ts'

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
export function toSettledCall({ row, meter }: Call, bill: Bill | undefined): SettledCall[] {
  if (!row || !bill) return []
  const error = meter.error instanceof UpstreamError ? meter.error : null
  // Nobody tells why a call is aborted: it is no longer wanted.
  const reason = error?.kind ?? (meter.error === null ? 'aborted' : 'internal')
  return [
    {
      ...row,
      status: bill.status,
      httpStatus: bill.status === 'ok' ? 200 : (error?.status ?? null),
      errorCode: bill.status === 'ok' ? null : reason,
      durationMs: meter.durationMs,
      firstTokenMs: meter.firstTokenMs,
      ...toBilled(bill),
      upstreamRequestId: meter.upstreamRequestId,
    },
  ]
}
