/**
 * What becomes of requests and calls that nobody will settle: those of an instance that is gone cost what they had reserved,
 * estimated, where nobody knows what they came to, and a store writes it down when a start gives them up. One that was refused costs nothing. Pure.
 */
import { type EndedCall, fromEndedBefore, joinTerms, sumOfCounts, USUAL_TERMS } from '../domain/ended-calls.ts'
import { fromFirstCall, toFirstCall } from '../domain/first-call.ts'
import type { ClosedCall, ClosedRow, OpenCall, OpenRow, SettledRow } from './ledger-rows.ts'

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
