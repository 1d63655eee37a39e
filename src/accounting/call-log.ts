/**
 * The calls of one request. A call is on record before it is made: the first one stands inline in the row that the gateway
 * has opened, an additional one gets a row of `calls` here, and room in the budget. What each of them used is read off its
 * meter when the request is settled.
 */
import type { EndSignal } from '../domain/end-signal.ts'
import { type EndedCall, toEndedBefore } from '../domain/ended-calls.ts'
import { type GatewayError, noLongerWanted } from '../domain/error.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import type { Lane } from '../domain/task.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Reservation } from '../limits/limiter.ts'
import type { OpenCall, OpenRow } from '../store/ledger-rows.ts'
import type { Counter } from '../tokens/count.ts'
import { estimate } from '../tokens/estimate.ts'
import { toEndedCall } from './additional.ts'
import { Call, type CallDeps, type PlannedCall } from './call.ts'
import { askForAll, type Pending, type Reserve, toReserve } from './cost.ts'

export interface CallLogDeps extends CallDeps {
  ledger: Pick<Ledger, 'openCall'>
  row: OpenRow
  /** The target that `row` was opened for. */
  first: Target
  reservation: Pick<Reservation, 'raise' | 'hasBudget' | 'releaseSlot'>
  /** Aborts when the client leaves or the server stops. */
  signal: EndSignal
  counter: Pick<Counter, 'bound'>
  /** Wall clock, ms. */
  now(): number
}

const laneOf = ({ native }: Pick<PlannedCall, 'native'>): Lane => (native === null ? 'translated' : 'native')

export class CallLog {
  readonly #deps: CallLogDeps
  readonly #calls: Call[] = []
  /** Of the first call, as the request's row says it: what was worked out already. */
  readonly #firstReserve: Reserve
  readonly #recording: Promise<void>[] = []
  readonly #pending = new Set<Pending>()
  /** Numbers of calls of which one that is on record says how they ended. */
  readonly #told = new Set<number>()
  #isClosed = false
  /** How many calls were begun; a first target that was passed over counts as one. */
  count = 0

  constructor(deps: CallLogDeps) {
    this.#deps = deps
    const { reservedPromptTokens, reservedCompletionTokens, reservedNanoUsd } = deps.row
    this.#firstReserve = { reservedPromptTokens, reservedCompletionTokens, reservedNanoUsd }
  }

  /** Id of the upstream that was tried last. */
  get upstream(): string {
    return this.#calls.at(-1)?.target.upstream.id ?? this.#deps.row.upstream
  }

  /** Whose turns its work on threads takes. */
  get shareId(): string {
    return this.#deps.key.shareId
  }

  /** When a call noticed that nobody gets its answer any more, by `performance.now()`; null where none has. */
  get leftMs(): number | null {
    for (const { leftMs } of this.#calls) if (leftMs !== null) return leftMs
    return null
  }

  /** What a call may at most use and cost, if it is begun next. */
  reserveOf({ target, body }: Pick<PlannedCall, 'target' | 'body'>): Reserve {
    if (this.count === 0 && target === this.#deps.first) return this.#firstReserve
    return toReserve(target, estimate(body, target.maxOutputLength), body)
  }

  /**
   * Gives the call once it is on record. Throws `ledger_unavailable`; `insufficient_quota` where a budget has no room for
   * one more; `aborted` where nobody waits any more.
   */
  begin(planned: PlannedCall, reserve: Reserve): Call | Promise<Call> {
    if (this.#isClosed || planned.signal.aborted) throw noLongerWanted()
    const { target, body } = planned
    const lane = laneOf(planned)
    const { first, row } = this.#deps
    const isPassedOver = this.count === 0 && target !== first
    if (isPassedOver) {
      // The row names a target that was not called after all: its provider's limit was reached, or its breaker opened.
      const call = this.#add(first, body, row.lane, null)
      this.#calls.push(call)
      call.meter.end('failed', noLongerWanted())
    }
    if (this.count > 0) return this.#beginAdditional(planned, reserve, isPassedOver)
    const call = this.#add(target, body, lane, null)
    this.#calls.push(call)
    return call
  }

  /**
   * Lets no additional call begin and returns all that were, once those on their way to the record are there and those that
   * are read on for their usage alone have ended.
   */
  close(): readonly Call[] | Promise<readonly Call[]> {
    this.#isClosed = true
    const isReadOn = this.#deps.signal.aborted && this.#calls.some(({ meter }) => meter.outcome === null)
    return this.#recording.length === 0 && !isReadOn ? this.#calls : this.#end()
  }

  async #end(): Promise<readonly Call[]> {
    await Promise.allSettled(this.#recording)
    if (this.#deps.signal.aborted) await Promise.all(this.#calls.map(({ meter }) => meter.ended()))
    return this.#calls
  }

  #add(target: Target, body: CanonicalRequest, lane: Lane, row: OpenCall | null): Call {
    return new Call(this.#deps, ++this.count, target, body, lane, row)
  }

  async #beginAdditional(planned: PlannedCall, reserve: Reserve, isPassedOver: boolean): Promise<Call> {
    const { target, body, reason, signal } = planned
    const { row, now } = this.#deps
    const next: Pending = { target, body, reserve }
    this.#pending.add(next)
    try {
      const raising = this.#raise()
      const refusal = raising instanceof Promise ? await raising : raising
      if (refusal) throw refusal
      if (this.#isClosed || signal.aborted) throw noLongerWanted()
      const ended = this.#calls.flatMap((one) => (this.#told.has(one.number) ? [] : (toEndedCall(one) ?? [])))
      const opened: OpenCall = {
        requestId: row.id,
        number: this.count + 1,
        instance: row.instance,
        endedBefore: toEndedBefore(ended),
        reason: isPassedOver || reason === 'first' ? 'fallback' : reason,
        upstream: target.upstream.id,
        upstreamModel: target.upstreamModel,
        lane: laneOf(planned),
        createdMs: now(),
        priceId: target.priceId,
        ...reserve,
      }
      const call = this.#add(target, body, opened.lane, opened)
      const recorded = this.#record(call, opened, next, ended)
      this.#recording.push(recorded)
      await recorded
      if (!this.#isClosed && !signal.aborted) return call
      const error = noLongerWanted()
      call.meter.end('failed', error)
      throw error
    } finally {
      this.#pending.delete(next)
    }
  }

  async #record(call: Call, opened: OpenCall, pending: Pending, told: readonly EndedCall[]): Promise<void> {
    await this.#deps.ledger.openCall(opened)
    for (const { number } of told) this.#told.add(number)
    this.#pending.delete(pending)
    this.#calls.push(call)
  }

  /** Makes room for what all calls have come to or may, those on their way to the record among them. */
  #raise(): GatewayError | null | Promise<GatewayError | null> {
    const { reservation, counter, row } = this.#deps
    return reservation.raise(askForAll(counter, this.shareId, row, reservation.hasBudget, this.#calls, this.#pending))
  }
}
