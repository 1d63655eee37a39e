/**
 * What becomes of requests and calls that nobody will settle: those of an instance that is gone cost what they had reserved,
 * estimated, and a store writes it down when a start gives them up. One that was refused costs nothing. Pure.
 */
import { fromFirstCall, toFirstCall } from '../domain/first-call.ts'
import type { AdditionalReason, ClosedCall, ClosedRow, OpenCall, OpenRow, SettledRow } from './ledger-rows.ts'

/**
 * A request that no living instance will settle, with its additional calls: it costs what those of its calls had reserved
 * that may have cost something, and names the target of the last of them.
 *
 * @param additional all its calls from the second on, by number.
 */
export function toAbandoned(
  row: OpenRow & Partial<Pick<ClosedRow, 'firstCall'>>,
  additional: readonly OpenCall[],
): { row: ClosedRow; calls: ClosedCall[] } {
  const { upstream, upstreamModel, lane, priceId } = additional.at(-1) ?? row
  const first = { ...row, reason: null }
  const perhapsPaid = new Set<Reserve>(
    toPerhapsPaid<Reserve & { reason: AdditionalReason | null }>([first, ...additional]),
  )
  const attempts = 1 + additional.length
  // A row that was given up before names its last call then.
  const target = row.firstCall ? fromFirstCall(row.firstCall) : row
  const firstCall = attempts > 1 ? toFirstCall({ ...target, ...givenUp(perhapsPaid.has(first) ? [row] : []) }) : null
  return {
    row: { ...row, upstream, upstreamModel, lane, priceId, ...givenUp([...perhapsPaid]), attempts, firstCall },
    calls: additional.map((call) => (perhapsPaid.has(call) ? toAbandonedCall(call) : { ...call, ...givenUp([]) })),
  }
}

/**
 * Of the calls of a request, by number, those that may have cost something: what a retry or a fallback was made in the
 * place of had failed by then. Of several at a time nobody knows which one it was.
 */
function toPerhapsPaid<T extends { reason: AdditionalReason | null }>(calls: readonly T[]): T[] {
  const perhapsPaid: T[] = []
  let together: T[] = []
  for (const call of calls) {
    if (call.reason === 'retry' || call.reason === 'fallback') {
      perhapsPaid.push(...(together.some(({ reason }) => reason === 'fan_out') ? together : together.slice(0, -1)))
      together = []
    }
    together.push(call)
  }
  return [...perhapsPaid, ...together]
}

/** The row of an additional call whose request is not there. */
export const toAbandonedCall = (call: OpenCall): ClosedCall => ({ ...call, ...givenUp([call]) })

type Reserve = Pick<OpenRow, 'reservedPromptTokens' | 'reservedCompletionTokens' | 'reservedNanoUsd'>

const givenUp = (reserves: readonly Reserve[]) => ({
  ...NOTHING_USED,
  status: 'abandoned' as const,
  errorCode: 'abandoned',
  promptTokens: sumOf(reserves, 'reservedPromptTokens'),
  completionTokens: sumOf(reserves, 'reservedCompletionTokens'),
  estimated: 1,
  costNanoUsd: sumOf(reserves, 'reservedNanoUsd'),
})

const sumOf = (reserves: readonly Reserve[], field: keyof Reserve) =>
  reserves.reduce((sum, reserve) => sum + reserve[field], 0)

/** What is on record of a call that nobody has the outcome of, or that was never made. */
const NOTHING_USED = {
  httpStatus: null,
  durationMs: null,
  firstTokenMs: null,
  promptTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  cacheWrite1hTokens: 0,
  completionTokens: 0,
  reasoningTokens: 0,
  audioPromptTokens: 0,
  audioCompletionTokens: 0,
  imageTokens: 0,
  imageCompletionTokens: 0,
  estimated: 0,
  costNanoUsd: 0,
  upstreamRequestId: null,
}

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
