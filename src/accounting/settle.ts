/**
 * Ends a request exactly once: bills its calls, releases its reservation, settles its row, and notifies listeners,
 * before the tail of the response is sent.
 */

import { UpstreamError } from '../domain/error.ts'
import type { Target } from '../domain/snapshot.ts'
import type { Trace } from '../domain/trace.ts'
import { withUnits } from '../domain/units.ts'
import type { Receipt } from '../domain/usage.ts'
import { type Ledger, toWithheld } from '../ledger/ledger.ts'
import type { Reservation } from '../limits/limiter.ts'
import { type Log, traceOf } from '../log.ts'
import type { OpenCall, OpenRow, Outcome, SettledCall, SettledRow } from '../store/ledger-rows.ts'
import type { Counter } from '../tokens/count.ts'
import { addBills, type Bill, toBill, toBilled, toEndedBill } from './bill.ts'
import type { Call } from './call.ts'
import type { CallLog } from './call-log.ts'

export interface End {
  status: Outcome['status']
  /** Status sent to the client. A stream that failed later has sent 200. */
  httpStatus: number
  errorCode: string | null
  reason?: string | null
  /** An internal error, too late to report in the response. */
  mistake?: unknown
}

export interface Finished {
  row: SettledRow
  reason: string | null
  mistake: unknown
  /** Valid only until the listener returns. */
  calls: readonly Call[]
  /** Time in Tollgate from the complete request body to its first call, ms. */
  before: number
  /** Time in Tollgate since the end of its last call, ms. */
  after: number
  trace: Trace | null
}

/** A listener that throws doesn't affect the settled request. */
export const toAll =
  (listeners: readonly ((finished: Finished) => void)[], log: Log) =>
  (finished: Finished): void => {
    for (const listener of listeners) {
      try {
        listener(finished)
      } catch (error) {
        log.error('internal_error', 'listener for finished requests failed', {
          id: finished.row.id,
          error: traceOf(error),
        })
      }
    }
  }

interface SettlementDeps {
  ledger: Pick<Ledger, 'settle'>
  counter: Counter
  calls: CallLog
  reservation: Pick<Reservation, 'releaseSlot' | 'settle'>
  /** When the request's body was complete, by the clock of its calls. */
  readAtMs: number
  monotonicMs(): number
  trace: Trace | null
  onFinished(finished: Finished): void
}

export class Settlement {
  readonly #deps: SettlementDeps
  readonly #startedAt = performance.now()
  #firstTokenMs: number | null = null
  #settled: Promise<Receipt> | null = null

  constructor(deps: SettlementDeps) {
    this.#deps = deps
  }

  get outputCap(): number | null {
    return this.#deps.calls.outputCap
  }

  get attempts(): number {
    return this.#deps.calls.count
  }

  get upstream(): string {
    return this.#deps.calls.upstream
  }

  firstToken(): void {
    this.#firstTokenMs ??= this.#elapsedMs()
  }

  /** Throws `ledger_unavailable`. Later calls repeat the first. */
  settle(end: End): Promise<Receipt> {
    this.#settled ??= this.#settle(end)
    return this.#settled
  }

  async #settle(end: End): Promise<Receipt> {
    const { ledger, counter, calls: log, reservation, readAtMs, monotonicMs, trace, onFinished } = this.#deps
    // Excludes time spent only on reading usage.
    const durationMs = log.leftMs === null ? this.#elapsedMs() : Math.round(log.leftMs - this.#startedAt)
    // Counting and reading on may take a while.
    reservation.releaseSlot()
    const closing = log.close()
    const calls = closing instanceof Promise ? await closing : closing
    const bills: Bill[] = []
    for (const call of calls) {
      const bill = toBill(call, end.status, counter, log.quotaId)
      bills.push(bill instanceof Promise ? await bill : bill)
    }
    const [only] = bills
    const alone = isAlone(bills)
    const sum = only && alone ? only : addBills(bills)
    const each = alone && !hasFailed(calls) ? undefined : toSettledCalls(log.row, calls, bills)
    const { usage, costNanoUsd } = sum
    reservation.settle({ tokens: usage.prompt + usage.completion, nanoUsd: costNanoUsd })
    const row = toSettledRow(log.row, sum, calls.at(-1), {
      status: end.status,
      httpStatus: end.httpStatus,
      errorCode: end.errorCode,
      durationMs,
      firstTokenMs: this.#firstTokenMs,
      attempts: each?.length ?? 1,
    })
    const { reason = null, mistake } = end
    const toFinished = (row: SettledRow): Finished => {
      const before = (calls[0]?.meter.startedMs ?? readAtMs) - readAtMs
      const nowMs = monotonicMs()
      const after = nowMs - (calls.at(-1)?.meter.endedMs ?? nowMs)
      return { row, reason, mistake, calls, before, after, trace }
    }
    try {
      await ledger.settle(row, each)
    } catch (error) {
      onFinished(toFinished(toWithheld(row)))
      throw error
    }
    onFinished(toFinished(row))
    return { usage, costNanoUsd, durationMs }
  }

  #elapsedMs(): number {
    return Math.round(performance.now() - this.#startedAt)
  }
}

export function logFinished(log: Log, { row, reason, mistake }: Pick<Finished, 'row' | 'reason' | 'mistake'>): void {
  if (mistake !== undefined) {
    log.error('internal_error', 'response interrupted by an internal error', { id: row.id, error: traceOf(mistake) })
  }
  log.info('request_finished', 'request finished', {
    id: row.id,
    key: row.keyId,
    model: row.model,
    upstream: row.upstream,
    stream: row.stream === 1,
    status: row.status,
    http: row.httpStatus,
    code: row.errorCode,
    reason: reason || undefined,
    attempts: row.attempts,
    ms: row.durationMs,
    first_token_ms: row.firstTokenMs,
    prompt_tokens: row.promptTokens,
    completion_tokens: row.completionTokens,
    estimated: row.estimated === 1,
    cost_nano_usd: row.costNanoUsd,
    mode: row.mode ?? undefined,
    unpriced: row.unpriced === 0 ? undefined : true,
  })
}

const KEPT = 0.8

export class Speeds {
  readonly #known = new Map<string, number>()

  /** Notes speeds of local servers only. */
  note(calls: readonly Pick<Call, 'target' | 'meter'>[]): void {
    for (const { target, meter } of calls) {
      const speed = target.upstream.local ? meter.tokensPerSecond : null
      if (speed !== null) this.take(target.upstream.id, target.upstreamModel, speed)
    }
  }

  /** @param speed tokens per second of a call. */
  take(upstream: string, upstreamModel: string, speed: number): void {
    const name = toName(upstream, upstreamModel)
    this.#known.set(name, (this.#known.get(name) ?? speed) * KEPT + speed * (1 - KEPT))
  }

  /** Tokens per second, to a tenth; null if never measured. */
  of = ({ upstream, upstreamModel }: Pick<Target, 'upstreamModel'> & { upstream: { id: string } }): number | null => {
    const found = this.#known.get(toName(upstream.id, upstreamModel))
    return found === undefined ? null : Math.round(found * 10) / 10
  }
}

const toName = (upstream: string, model: string) => `${upstream}\n${model}`

/** True if a call failed. The request's row has the client's status, so an upstream's status needs a separate row. */
const hasFailed = (calls: readonly Pick<Call, 'meter'>[]): boolean =>
  calls.some(({ meter: { error } }) => error instanceof UpstreamError && error.end === null && !error.isOwnLimit)

/** True if the request's row has everything. */
export const isAlone = (bills: readonly Bill[]): boolean =>
  bills.length === 0 || (bills.length === 1 && bills[0]?.nested.length === 0)

export function toSettledCalls(row: OpenRow, calls: readonly Call[], bills: readonly Bill[]): SettledCall[] {
  const all = calls.flatMap((call, at) =>
    bills[at] ? [{ bill: bills[at], made: toSettledCall(row, call, bills[at]) }] : [],
  )
  const settled = all.map(({ made }) => made)
  let number = 1 + Math.max(...calls.map((call) => call.number))
  for (const { made, bill } of all) {
    for (const { upstreamModel, priceId, ...used } of bill.nested)
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

/** The first call, whose reservation is in the request's row. */
const toFirstRow = (row: OpenRow, { target, lane }: Call): OpenCall => ({
  ...{ requestId: row.id, number: 1, instance: row.instance, reason: 'first', createdMs: row.createdMs },
  ...{ upstream: target.upstream.id, upstreamModel: target.upstreamModel, lane, priceId: target.priceId },
  reservedPromptTokens: row.reservedPromptTokens,
  reservedCompletionTokens: row.reservedCompletionTokens,
  reservedNanoUsd: row.reservedNanoUsd,
})

/**
 * Records an ended call, so that a crash charges no more for it. Null if several models worked in the call. Then a
 * crash charges its reservation.
 */
export function toEndedCall(row: OpenRow, call: Call): SettledCall | null {
  const bill = toEndedBill(call)
  return bill === null || bill.nested.length > 0 ? null : toSettledCall(row, call, bill)
}

function toEnd({ meter }: Call, { status }: Bill) {
  const error = meter.error instanceof UpstreamError ? meter.error : null
  // An aborted call has no error, because its response is no longer wanted.
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

/**
 * Building the row by spreads costs six times as much.
 * @param last the call that the row names; undefined without calls.
 */
export function toSettledRow(
  open: OpenRow,
  sum: Omit<Bill, 'status' | 'nested'>,
  last: Call | undefined,
  ending: Ending,
): SettledRow {
  const billed = toBilled(sum)
  const row: SettledRow = {
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
  return withUnits(row, billed)
}
