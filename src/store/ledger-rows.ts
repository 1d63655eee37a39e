/**
 * The rows of the ledger, in no store's words: whole, so that applying one twice or out of order changes nothing. A line of the
 * journal holds exactly one record of them. And what becomes of requests and calls that nobody will settle: they cost what they had
 * reserved. Pure.
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
import type { Endpoint, Lane } from '../domain/task.ts'

/** Where a call goes. Of a request it is the last call that was made. */
export interface CallTarget {
  upstream: string
  upstreamModel: string
  /** `native`: the upstream's bytes were passed on; `translated`: read as events and written anew. */
  lane: Lane
  priceId: string | null
}

/** What a call holds until it has ended; it only grows. Of a request it is what its first call holds. */
export interface Reserve {
  reservedPromptTokens: number
  reservedCompletionTokens: number
  reservedNanoUsd: number
}

/** How a call or a request ended. Of a request, tokens and cost are the sums over its calls; `estimated` where some count is ours. */
export interface Outcome<Status = 'ok' | 'failed' | 'cut'> extends Counts, Terms {
  status: Status
  httpStatus: number | null
  errorCode: string | null
  durationMs: number | null
  firstTokenMs: number | null
  estimated: number
  upstreamRequestId: string | null
  /** By which of its upstream's credentials it went, from 1 on; null where that has one or none. Of a request it is that of its last call. */
  credential: number | null
}

/** `abandoned`: given up at a start, because its instance is gone. */
export type ClosedStatus = Outcome['status'] | 'abandoned'

/** A request as it stands before any upstream sees it. What it reserved is what it costs if nobody ever settles it. */
export interface OpenRow extends CallTarget, Reserve {
  id: string
  instance: string
  keyId: string
  /** The team that the key had when the request was admitted: what it costs stays that team's. */
  teamId: string | null
  model: string
  endpoint: Endpoint
  stream: number
  user: string | null
  createdMs: number
}

interface Request<Status> extends OpenRow, Outcome<Status> {
  /** How many calls it took. */
  attempts: number
}

export interface SettledRow extends Request<Outcome['status']> {}
export interface ClosedRow extends Request<ClosedStatus> {}
/** A request as it is on record, however it stands. */
export interface StoredRequest extends Request<ClosedStatus | 'open'> {}

/**
 * Why a call is made. `limit`: a limit of ours kept the one before from being made. `within`: the upstream made it of another model,
 * within a call of ours that it has charged for.
 */
export type CallReason = 'first' | 'retry' | 'fallback' | 'limit' | 'fan_out' | 'schema' | 'within'

/** A call of a request as it stands before it is made. */
export interface OpenCall extends CallTarget, Reserve {
  requestId: string
  /** From 1 on. */
  number: number
  instance: string
  reason: CallReason
  createdMs: number
}

export interface SettledCall extends OpenCall, Outcome {}
export interface ClosedCall extends OpenCall, Outcome<ClosedStatus> {}
export interface StoredCall extends OpenCall, Outcome<ClosedStatus | 'open'> {}

/**
 * A request or an additional call that is open, with what it holds by now: never less than before. Whoever knows it already changes its
 * reserve alone. `heldNanoUsd` is what it held before.
 */
export type Growth =
  | { kind: 'open'; row: OpenRow; heldNanoUsd: number }
  | { kind: 'call'; call: OpenCall; heldNanoUsd: number }

/**
 * A request of one call is one row. Of one that takes several, each call after the first is recorded before it is made, with how those
 * before it have ended that no record before says; its outcome says all of them, by number.
 */
export type LedgerRecord =
  | { kind: 'open'; row: OpenRow }
  | { kind: 'call'; call: OpenCall; ended?: readonly SettledCall[] }
  | Growth
  | { kind: 'settle'; row: SettledRow; calls?: readonly SettledCall[] }

const targetOf = ({ upstream, upstreamModel, lane, priceId }: CallTarget): CallTarget => ({
  ...{ upstream, upstreamModel, lane, priceId },
})

/** The first call of a request, as its row has it: until it is closed, the row is of that call. */
export const toFirstCall = (row: OpenRow, target: CallTarget = row): OpenCall => ({
  ...{ requestId: row.id, number: 1, instance: row.instance, reason: 'first', createdMs: row.createdMs },
  ...targetOf(target),
  reservedPromptTokens: row.reservedPromptTokens,
  reservedCompletionTokens: row.reservedCompletionTokens,
  reservedNanoUsd: row.reservedNanoUsd,
})

/** The only call of a request, as its row has it. */
export function toOnlyCall({
  id,
  keyId,
  teamId,
  model,
  endpoint,
  stream,
  user,
  attempts,
  ...call
}: StoredRequest): StoredCall {
  return { ...call, requestId: id, number: 1, reason: 'first' }
}

/**
 * A request that no living instance will settle, with its calls where it has several: it costs what those of them came to that are on
 * record as ended, and of the others what they had reserved. It names the target of the last of them.
 *
 * @param stored the calls that are on record: the first one where it has ended, or was given up before.
 */
export function toAbandoned(
  row: OpenRow & Partial<Pick<ClosedRow, 'attempts'>>,
  stored: readonly StoredCall[],
): { row: ClosedRow; calls: ClosedCall[] } {
  const known = stored.find(({ number }) => number === 1)
  const others = stored.filter(({ number }) => number > 1)
  // Once it was given up with several, the row names the last one's target.
  const first = { ...known, ...toFirstCall(row, known && (row.attempts ?? 1) > 1 ? known : row) }
  const calls = [first, ...others].map(toAbandonedCall)
  const sums = { ...sumOfCounts(calls), ...joinTerms(calls) }
  const end = { ...targetOf(calls.at(-1) ?? row), ...GIVEN_UP, ...sums, attempts: calls.length }
  return { row: { ...row, ...end }, calls: calls.length > 1 ? calls : [] }
}

/** A call that nobody will settle: as it ended, where that is on record. */
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

/** What is on record of a call that nobody has the outcome of, or that was never made. */
const NOTHING_USED = {
  ...{ httpStatus: null, durationMs: null, firstTokenMs: null },
  ...{ ...NO_COUNTS, estimated: 0, ...USUAL_TERMS },
  ...{ upstreamRequestId: null, credential: null },
}

const GIVEN_UP = { ...NOTHING_USED, status: 'abandoned', errorCode: 'abandoned', estimated: 1 } as const

/** The end of a request that was turned away although its row was written: nothing was asked of anybody. */
export function toRefused(row: OpenRow): SettledRow {
  const end = { status: 'failed', httpStatus: 503, errorCode: 'ledger_unavailable', attempts: 1 } as const
  return { ...row, ...NOTHING_USED, ...end }
}

/** A record as versions wrote it that kept the first call of several within the row of its request, and what had ended within the next call. */
type FormerRecord =
  | { kind: 'open'; row: OpenRow }
  | { kind: 'call'; call: OpenCall & { endedBefore?: string | null } }
  | { kind: 'settle'; row: SettledRow & { firstCall?: string | null }; calls?: readonly SettledCall[] }

/** Reads a record of whatever version. */
export function toCurrentRecord(record: LedgerRecord | FormerRecord): LedgerRecord {
  if (record.kind === 'call' && 'endedBefore' in record.call) {
    const { endedBefore, ...call } = record.call
    if (!endedBefore) return { ...record, call }
    const told: { number: number; status: Outcome['status'] }[] = JSON.parse(endedBefore)
    // Where they went nobody says here: the rows that they have do.
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

/** Adds the first call to the others, where it is not among them: it used what they have not. @param said where it went and how it ended. */
export function withFirstCall(
  row: SettledRow,
  calls: readonly SettledCall[],
  said: Partial<SettledCall> = {},
): readonly SettledCall[] {
  if (calls.some(({ number }) => number === 1)) return calls
  const first = { ...toOnlyCall(row), status: row.status, ...said }
  const others = sumOfCounts(calls.map((call) => ({ ...NO_COUNTS, ...call })))
  for (const field of COUNTS) first[field] = Math.max(0, (row[field] ?? 0) - others[field])
  return [first, ...calls]
}

/** From the names of columns, such as `http_status`, to those of fields. */
const toFields = <T extends object>(columns: T): T =>
  Object.fromEntries(
    Object.entries(columns).map(([name, value]) => [
      name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase()),
      value,
    ]),
  ) as T
