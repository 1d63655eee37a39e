/**
 * Ends a request exactly once: bills its calls, frees what it had reserved, settles its ledger row and tells whoever
 * listens that it has finished, the log above all. Delivery calls it before the tail of the answer leaves; whatever it
 * learns later about the same request changes nothing.
 */

import type { Target } from '../domain/snapshot.ts'
import type { Receipt } from '../domain/usage.ts'
import { type Ledger, toWithheld } from '../ledger/ledger.ts'
import type { Reservation } from '../limits/limiter.ts'
import { type Log, traceOf } from '../log.ts'
import type { Outcome, SettledRow } from '../store/ledger-rows.ts'
import type { Counter } from '../tokens/count.ts'
import { type Bill, toBill } from './bill.ts'
import type { Call } from './call.ts'
import type { CallLog } from './call-log.ts'
import { addBills, isAlone, toSettledCalls, toSettledRow } from './settled-rows.ts'

export interface End {
  status: Outcome['status']
  /** What the client saw: a stream that failed later has said 200. */
  httpStatus: number
  errorCode: string | null
  /** Why the upstream failed, for the log. */
  reason?: string | null
  /** A mistake of our own that ended it, where no response can tell of it any more. */
  mistake?: unknown
}

/** A request that has come to its end, for the log and for metrics. */
export interface Finished {
  row: SettledRow
  reason: string | null
  mistake: unknown
  /** How fast its calls to local servers were. */
  speeds: readonly Speed[]
}

/** Tells each of them; the mistake of a listener is its own, and changes nothing of a request that is settled. */
export const toAll =
  (listeners: readonly ((finished: Finished) => void)[], log: Log) =>
  (finished: Finished): void => {
    for (const listener of listeners) {
      try {
        listener(finished)
      } catch (error) {
        log.error('internal_error', 'a listener to finished requests failed', {
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
  /** What was reserved for the request on its key and team. */
  reservation: Pick<Reservation, 'releaseSlot' | 'settle'>
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

  /** See `CallLog.outputCap`. */
  get outputCap(): number | null {
    return this.#deps.calls.outputCap
  }

  /** How many calls were made so far. */
  get attempts(): number {
    return this.#deps.calls.count
  }

  /** Id of the upstream that was tried last. */
  get upstream(): string {
    return this.#deps.calls.upstream
  }

  /** Notes that the first token is about to reach the client. */
  firstToken(): void {
    this.#firstTokenMs ??= this.#elapsedMs()
  }

  /** Resolves once the row is durable. Throws `ledger_unavailable`. Later calls repeat the first. */
  settle(end: End): Promise<Receipt> {
    this.#settled ??= this.#settle(end)
    return this.#settled
  }

  async #settle(end: End): Promise<Receipt> {
    const { ledger, counter, calls: log, reservation, onFinished } = this.#deps
    // The answer went on until then: what is read on for its usage is no time of it.
    const durationMs = log.leftMs === null ? this.#elapsedMs() : Math.round(log.leftMs - this.#startedAt)
    // A count may take its time, and so may what is read on: the client has nothing under way any more.
    reservation.releaseSlot()
    const closing = log.close()
    const calls = closing instanceof Promise ? await closing : closing
    const bills: Bill[] = []
    for (const call of calls) {
      const bill = toBill(call, end.status, counter, log.shareId)
      bills.push(bill instanceof Promise ? await bill : bill)
    }
    const [only] = bills
    const alone = isAlone(bills)
    const sum = only && alone ? only : addBills(bills)
    const each = alone ? undefined : toSettledCalls(log.row, calls, bills)
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
    const speeds = toSpeeds(calls)
    try {
      await ledger.settle(row, each)
    } catch (error) {
      onFinished({ row: toWithheld(row), reason, mistake, speeds })
      throw error
    }
    onFinished({ row, reason, mistake, speeds })
    return { usage, costNanoUsd, durationMs }
  }

  #elapsedMs(): number {
    return Math.round(performance.now() - this.#startedAt)
  }
}

export function logFinished(log: Log, { row, reason, mistake }: Omit<Finished, 'speeds'>): void {
  if (mistake !== undefined) {
    log.error('internal_error', 'an answer was cut by an internal error', { id: row.id, error: traceOf(mistake) })
  }
  log.info('request_finished', 'request', {
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

/** Of one answer. */
interface Speed {
  upstream: string
  upstreamModel: string
  tokensPerSecond: number
}

/** Reads the speeds off calls to local servers, where they have any. */
export const toSpeeds = (calls: readonly Pick<Call, 'target' | 'meter'>[]): readonly Speed[] =>
  // Of most requests no call goes to one.
  calls.some(isOfLocal) ? measureSpeeds(calls) : NONE

const NONE: readonly Speed[] = []
const isOfLocal = ({ target: { upstream } }: Pick<Call, 'target'>) => upstream.local

const measureSpeeds = (calls: readonly Pick<Call, 'target' | 'meter'>[]): Speed[] =>
  calls.flatMap(({ target: { upstream, upstreamModel }, meter: { tokensPerSecond } }) =>
    upstream.local && tokensPerSecond !== null ? { upstream: upstream.id, upstreamModel, tokensPerSecond } : [],
  )

/** Of what went before. */
const KEPT = 0.8

export class Speeds {
  readonly #known = new Map<string, number>()

  note(speeds: readonly Speed[]): void {
    for (const { upstream, upstreamModel, tokensPerSecond } of speeds) {
      const before = this.#known.get(toName(upstream, upstreamModel)) ?? tokensPerSecond
      this.#known.set(toName(upstream, upstreamModel), before * KEPT + tokensPerSecond * (1 - KEPT))
    }
  }

  /** Tokens a second, to a tenth; null where none were measured. */
  of = ({ upstream, upstreamModel }: Pick<Target, 'upstreamModel'> & { upstream: { id: string } }): number | null => {
    const found = this.#known.get(toName(upstream.id, upstreamModel))
    return found === undefined ? null : Math.round(found * 10) / 10
  }
}

const toName = (upstream: string, model: string) => `${upstream}\n${model}`
