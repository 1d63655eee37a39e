/**
 * Complete rows of the ledger: applying one twice or out of order changes nothing. A journal line holds one record. Requests and calls that are never settled
 * cost their reservation.
 */
import {
  COUNTS,
  type Counts,
  joinTerms,
  NO_COUNTS,
  sumOfCounts,
  type Terms,
  USUAL_TERMS,
} from '../domain/call-counts.ts'
import type { Lane, RecordedEndpoint } from '../domain/task.ts'
import { type CountSource, NO_UNITS, type Unit, type UnitCounts } from '../domain/units.ts'

/** Of a request: its last call. */
export interface CallTarget {
  upstream: string
  upstreamModel: string
  /** `native`: passed through; `translated`: parsed and rewritten. */
  lane: Lane
  priceId: string | null
}

/** Only grows. For a request: the reservation of its first call. */
export interface Reserve {
  reservedPromptTokens: number
  reservedCompletionTokens: number
  reservedNanoUsd: number
}

/** A request has the totals of its calls. `estimated`: Tollgate made some counts. Rows of chats have no units. */
export interface Outcome<Status = 'ok' | 'failed' | 'cut'> extends Counts, Terms {
  status: Status
  httpStatus: number | null
  errorCode: string | null
  durationMs: number | null
  firstTokenMs: number | null
  estimated: number
  upstreamRequestId: string | null
  /** From 1; null if the upstream has one or none. Of a request: the last call's. */
  credential: number | null
}

/** `abandoned`: at a start, its instance had ended. */
export type ClosedStatus = Outcome['status'] | 'abandoned'

/** Recorded before the request is sent. If never settled, it costs its reservation. */
export interface OpenRow extends CallTarget, Reserve {
  id: string
  instance: string
  keyId: string
  /** When the request was admitted; keeps the cost. */
  teamId: string | null
  model: string
  endpoint: RecordedEndpoint
  stream: number
  user: string | null
  createdMs: number
}

/** A row in a database, which has all counts. */
type Complete = Record<Unit, number> & { countedBy: CountSource | null }

export const toComplete = <Row extends UnitCounts>(row: Row): Row & Complete => ({
  ...NOTHING_MORE,
  ...row,
})

const NOTHING_MORE: Complete = { ...NO_UNITS, countedBy: null }

interface Request<Status> extends OpenRow, Outcome<Status> {
  attempts: number
}

export interface SettledRow extends Request<Outcome['status']> {}
export interface ClosedRow extends Request<ClosedStatus> {}
export type StoredRequest = Request<ClosedStatus | 'open'> & Complete

/** `limit`: our limit prevented the previous one. `within`: the upstream called another model within a call that it charged for. */
export type CallReason = 'first' | 'retry' | 'fallback' | 'limit' | 'fan_out' | 'schema' | 'within'

export interface OpenCall extends CallTarget, Reserve {
  requestId: string
  /** From 1. */
  number: number
  instance: string
  reason: CallReason
  createdMs: number
}

export interface SettledCall extends OpenCall, Outcome {}
export interface ClosedCall extends OpenCall, Outcome<ClosedStatus> {}
export type StoredCall = OpenCall & Outcome<ClosedStatus | 'open'> & Complete

/** An open request or call with its current reserve; `heldNanoUsd` is the previous one. */
export type Growth =
  | { kind: 'open'; row: OpenRow; heldNanoUsd: number }
  | { kind: 'call'; call: OpenCall; heldNanoUsd: number }

/**
 * A request with one call is one row. Each further call is recorded before it starts, with outcomes that no record has yet. The final outcome has all calls, by
 * number.
 */
export type LedgerRecord =
  | { kind: 'open'; row: OpenRow }
  | { kind: 'call'; call: OpenCall; ended?: readonly SettledCall[] }
  | Growth
  | { kind: 'settle'; row: SettledRow; calls?: readonly SettledCall[] }

const targetOf = ({ upstream, upstreamModel, lane, priceId }: CallTarget): CallTarget => ({
  ...{ upstream, upstreamModel, lane, priceId },
})

export const toFirstCall = (row: OpenRow, target: CallTarget = row): OpenCall => ({
  ...{ requestId: row.id, number: 1, instance: row.instance, reason: 'first', createdMs: row.createdMs },
  ...targetOf(target),
  reservedPromptTokens: row.reservedPromptTokens,
  reservedCompletionTokens: row.reservedCompletionTokens,
  reservedNanoUsd: row.reservedNanoUsd,
})

export function toOnlyCall<Row extends Request<ClosedStatus | 'open'>>({
  id,
  keyId,
  teamId,
  model,
  endpoint,
  stream,
  user,
  attempts,
  ...call
}: Row): OpenCall & Omit<Row, keyof Omit<OpenRow, keyof OpenCall> | 'attempts'> {
  return { ...call, requestId: id, number: 1, reason: 'first' }
}

/**
 * Ended calls cost their recorded cost, others their reservation.
 * @param stored recorded calls; the first only if it has ended or was abandoned.
 */
export function toAbandoned(
  row: OpenRow & Partial<Pick<ClosedRow, 'attempts'>>,
  stored: readonly StoredCall[],
): { row: ClosedRow; calls: ClosedCall[] } {
  const known = stored.find(({ number }) => number === 1)
  const others = stored.filter(({ number }) => number > 1)
  // If abandoned with several calls, the row has the last one's target.
  const first = { ...known, ...toFirstCall(row, known && (row.attempts ?? 1) > 1 ? known : row) }
  const calls = [first, ...others].map(toAbandonedCall)
  const sums = { ...sumOfCounts(calls), ...joinTerms(calls) }
  const end = { ...targetOf(calls.at(-1) ?? row), ...GIVEN_UP, ...sums, attempts: calls.length }
  return { row: { ...row, ...end }, calls: calls.length > 1 ? calls : [] }
}

/** Returns an ended call unchanged. */
export function toAbandonedCall(call: OpenCall & Partial<StoredCall>): ClosedCall {
  const { status = 'open' } = call
  if (status !== 'open' && status !== 'abandoned') return { ...GIVEN_UP, ...call, status }
  return {
    ...{ ...call, ...GIVEN_UP },
    promptTokens: call.reservedPromptTokens,
    completionTokens: call.reservedCompletionTokens,
    costNanoUsd: call.reservedNanoUsd,
  }
}

const NOTHING_USED = {
  ...{ httpStatus: null, durationMs: null, firstTokenMs: null },
  ...{ ...NO_COUNTS, estimated: 0, ...USUAL_TERMS },
  ...{ upstreamRequestId: null, credential: null },
}

const GIVEN_UP = { ...NOTHING_USED, status: 'abandoned', errorCode: 'abandoned', estimated: 1 } as const

/** Rejected although its row was written: no upstream was called. */
export function toRefused(row: OpenRow): SettledRow {
  const end = { status: 'failed', httpStatus: 503, errorCode: 'ledger_unavailable', attempts: 1 } as const
  return { ...row, ...NOTHING_USED, ...end }
}

/** Older versions kept the first call in the request's row, and earlier outcomes in the next call. */
type FormerRecord =
  | { kind: 'open'; row: OpenRow }
  | { kind: 'call'; call: OpenCall & { endedBefore?: string | null } }
  | { kind: 'settle'; row: SettledRow & { firstCall?: string | null }; calls?: readonly SettledCall[] }

/** Reads a record of any version. */
export function toCurrentRecord(record: LedgerRecord | FormerRecord): LedgerRecord {
  if (record.kind === 'call' && 'endedBefore' in record.call) {
    const { endedBefore, ...call } = record.call
    if (!endedBefore) return { ...record, call }
    const told: { number: number; status: Outcome['status'] }[] = JSON.parse(endedBefore)
    // The targets are unknown here; existing rows have them.
    const ended = told.map((one) => ({ ...call, ...NOTHING_USED, errorCode: null, ...toFields(one) }))
    return { ...record, call, ended: ended.map((one) => (one.number === 1 ? { ...one, reason: 'first' } : one)) }
  }
  if (record.kind !== 'settle') return record
  const { row, calls } = record
  if (!('firstCall' in row)) return calls ? { ...record, calls: withFirstCall(row, calls) } : record
  const { firstCall, ...rest } = row
  if (!calls) return { ...record, row: rest }
  return { ...record, row: rest, calls: withFirstCall(rest, calls, firstCall ? toFields(JSON.parse(firstCall)) : {}) }
}

/** The first call used the totals less the other calls. @param said its target and outcome. */
export function withFirstCall(
  row: SettledRow,
  calls: readonly SettledCall[],
  said: Partial<SettledCall> = {},
): readonly SettledCall[] {
  if (calls.some(({ number }) => number === 1)) return calls
  const first: SettledCall = { ...toOnlyCall(row), ...said }
  const others = sumOfCounts(calls.map((call) => ({ ...NO_COUNTS, ...call })))
  for (const field of COUNTS)
    if (row[field] !== undefined || field in NO_COUNTS)
      first[field] = Math.max(0, (row[field] ?? 0) - (others[field] ?? 0))
  return [first, ...calls]
}

/** `http_status` to `httpStatus`. */
const toFields = <T extends object>(columns: T): T =>
  Object.fromEntries(
    Object.entries(columns).map(([name, value]) => [
      name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase()),
      value,
    ]),
  ) as T
