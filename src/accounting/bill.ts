/**
 * What each call of a request used and costs: by what its upstream reported, or else by a count of our own, marked as
 * such. Every call is rounded once, and a request is the sum of its calls.
 */
import { UpstreamError } from '../domain/error.ts'
import { NO_USAGE, type Usage } from '../domain/usage.ts'
import type { Outcome, SettledCall } from '../store/ledger-rows.ts'
import type { Counter } from '../tokens/count.ts'
import type { Call } from './calls.ts'
import { costNanoUsd } from './price.ts'

export interface Bill {
  status: Outcome['status']
  usage: Usage
  /** Some count of `usage` is ours and not the upstream's. */
  estimated: boolean
  costNanoUsd: number
}

/**
 * Bills one call. A call that failed delivered nothing and costs nothing; one that was broken off costs what it had
 * come to; a figure that is missing is counted. Only what must be counted makes it wait.
 * @param requestStatus how its request ends: that of a call that nobody has ended.
 */
export function toBill(call: Call, requestStatus: Outcome['status'], counter: Counter): Bill | Promise<Bill> {
  const { outcome, usage } = call.meter
  const status = outcome ?? (requestStatus === 'ok' ? 'ok' : 'cut')
  if (status === 'failed') return { status, usage: NO_USAGE, estimated: false, costNanoUsd: 0 }
  if (status === 'ok' && usage && !call.meter.isUnreported) return charge(call, status, usage, false)
  return counter
    .usage(call.body, call.meter.captured())
    .then((counted) => charge(call, status, usage ? toLarger(usage, counted) : counted, true))
}

function charge({ target }: Call, status: Outcome['status'], usage: Usage, estimated: boolean): Bill {
  return { status, usage, estimated, costNanoUsd: costNanoUsd(target.pricing, usage) }
}

/** The larger figure counts: some upstreams report usage first when nearly nothing is written. */
function toLarger(reported: Usage, counted: Usage): Usage {
  return {
    ...reported,
    prompt: reported.prompt || counted.prompt,
    completion: Math.max(reported.completion, counted.completion),
    reasoning: Math.max(reported.reasoning, counted.reasoning),
  }
}

/** The sums over the calls of a request. */
export function addBills(bills: readonly Bill[]): Omit<Bill, 'status'> {
  const [only] = bills
  if (only && bills.length === 1) return only
  const sum = { usage: { ...NO_USAGE }, estimated: false, costNanoUsd: 0 }
  for (const { usage, estimated, costNanoUsd } of bills) {
    for (const field of COUNTS) sum.usage[field] += usage[field]
    sum.estimated ||= estimated
    sum.costNanoUsd += costNanoUsd
  }
  return sum
}

const COUNTS = ['prompt', 'cacheRead', 'cacheWrite', 'cacheWrite1h', 'completion', 'reasoning'] as const

/** The outcome of an additional call; nothing for the first one, which stands inline. */
export function toSettledCall({ row, meter }: Call, bill: Bill | undefined): SettledCall[] {
  if (!row || !bill) return []
  const { usage } = bill
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
      promptTokens: usage.prompt,
      cachedTokens: usage.cacheRead,
      cacheWriteTokens: usage.cacheWrite + usage.cacheWrite1h,
      completionTokens: usage.completion,
      reasoningTokens: usage.reasoning,
      estimated: bill.estimated ? 1 : 0,
      costNanoUsd: bill.costNanoUsd,
      upstreamRequestId: meter.upstreamRequestId,
    },
  ]
}
