/**
 * The calls of one request. Each is recorded and has budget reserved before it is sent: the first in the request's row,
 * others in rows of `calls`.
 */
import type { EndSignal } from '../domain/end-signal.ts'
import { endedBy, type GatewayError } from '../domain/error.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import type { Lane } from '../domain/task.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Reservation } from '../limits/limiter.ts'
import type { OpenCall, OpenRow, Reserve, SettledCall } from '../store/ledger-rows.ts'
import type { Counter } from '../tokens/count.ts'
import { capOf, estimatePrompt, worstPrompt } from '../tokens/estimate.ts'
import { Call, type CallDeps, Hold, type PlannedCall } from './call.ts'
import {
  askForAll,
  findCap,
  type Pending,
  toHeldOutput,
  toLeastCap,
  toMostNanoUsd,
  toReserve,
  withCap,
} from './cost.ts'
import { toEndedCall } from './settle.ts'

export interface CallLogDeps extends CallDeps {
  ledger: Pick<Ledger, 'openCall' | 'grow'>
  row: OpenRow
  first: Target
  reservation: Pick<Reservation, 'raise' | 'room' | 'hasBudget' | 'releaseSlot'>
  /** True if the client gave no output cap. */
  isUncapped: boolean
  /** Our own cap for the first target; null for none. */
  outputCap: number | null
  /** Aborts when the client disconnects or the server stops. */
  signal: EndSignal
  counter: Pick<Counter, 'bound' | 'usage'>
  /** Wall clock, ms. */
  now(): number
}

const reserveIn = ({ reservedPromptTokens, reservedCompletionTokens, reservedNanoUsd }: Reserve): Reserve => ({
  ...{ reservedPromptTokens, reservedCompletionTokens, reservedNanoUsd },
})

const laneOf = ({ passthrough }: Pick<PlannedCall, 'passthrough'>): Lane =>
  passthrough === null ? 'translated' : 'native'

export class CallLog {
  readonly #deps: CallLogDeps
  readonly #calls: Call[] = []
  row: OpenRow
  /** Our own cap of the last call, if the budget couldn't cover the model's maximum output; null for none. */
  outputCap: number | null
  readonly #recording: Promise<void>[] = []
  readonly #pending = new Set<Pending>()
  /** Numbers of calls whose outcome is recorded with a later call. */
  readonly #told = new Set<number>()
  #isClosed = false
  /** Calls begun, including a first target that was skipped. */
  count = 0

  constructor(deps: CallLogDeps) {
    this.#deps = deps
    this.row = deps.row
    this.outputCap = deps.outputCap
  }

  get upstream(): string {
    return this.#calls.at(-1)?.target.upstream.id ?? this.row.upstream
  }

  get quotaId(): string {
    return this.#deps.key.quotaId
  }

  /** When a call noticed the client disconnect or the stop, by `performance.now()`; else null. */
  get leftMs(): number | null {
    for (const { leftMs } of this.#calls) if (leftMs !== null) return leftMs
    return null
  }

  reserveOf({ target, body }: Pick<PlannedCall, 'target' | 'body'>): Reserve {
    if (this.count === 0 && target === this.#deps.first) return reserveIn(this.row)
    const isSeen = body.stream === true || !this.#deps.reservation.hasBudget
    const completionTokens = toHeldOutput(body, target.maxOutputLength, isSeen) * (body.n ?? 1)
    return toReserve(target, { promptTokens: estimatePrompt(body), completionTokens }, body)
  }

  /** Throws `ledger_unavailable` or `insufficient_quota`, or `aborted` if no client is waiting. */
  begin(planned: PlannedCall, reserve: Reserve): Call | Promise<Call> {
    if (this.#isClosed || planned.signal.aborted) throw endedBy('superseded')
    const { target, body } = planned
    const lane = laneOf(planned)
    const { first } = this.#deps
    const isPassedOver = this.count === 0 && target !== first
    if (isPassedOver) {
      // The row names a target that was not called, because it was rate limited or its breaker opened.
      const call = this.#add(first, body, this.row.lane, null)
      this.#calls.push(call)
      call.meter.end('failed', endedBy('superseded'))
    }
    if (this.count > 0) return this.#beginAdditional(planned, reserve, isPassedOver)
    const call = this.#add(target, body, lane, null)
    this.#calls.push(call)
    return call
  }

  /** Prevents further calls; waits until all are recorded and no longer read for usage. */
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

  #add(target: Target, body: AnyRequest, lane: Lane, row: OpenCall | null): Call {
    const call = new Call(this.#deps, ++this.count, target, body, lane, row)
    if (body.stream && capOf(body) === null) {
      const { reservedCompletionTokens } = row ?? this.row
      const grow = (tokens: number) => this.#grow(call, tokens)
      const { counter, reservation } = this.#deps
      const count = async () => (await counter.usage(this.quotaId, body, call.meter.captured())).completion
      call.hold = new Hold(call, reservedCompletionTokens, reservation.hasBudget, grow, count)
    }
    return call
  }

  /** Raises a call's hold if the budgets allow it. Recorded without waiting for the write. */
  #grow(call: Call, tokens: number): GatewayError | null | Promise<GatewayError | null> {
    const before = call.row ?? this.row
    const { reservedPromptTokens: promptTokens, reservedNanoUsd: heldNanoUsd } = before
    const completionTokens = before.reservedCompletionTokens + tokens
    const grown = toReserve(call.target, { promptTokens, completionTokens }, call.body)
    const hold = (reserve: Reserve) => {
      if (call.row) call.row = { ...call.row, ...reserve }
      else this.row = { ...this.row, ...reserve }
    }
    hold(grown)
    const done = (refusal: GatewayError | null) => {
      if (refusal) hold(reserveIn(before))
      else if (call.row) this.#deps.ledger.grow({ kind: 'call', call: call.row, heldNanoUsd })
      else this.#deps.ledger.grow({ kind: 'open', row: this.row, heldNanoUsd })
      return refusal
    }
    const raising = this.#raise(true)
    return raising instanceof Promise ? raising.then(done) : done(raising)
  }

  async #beginAdditional(planned: PlannedCall, reserve: Reserve, isPassedOver: boolean): Promise<Call> {
    const { target, reason, signal } = planned
    const { now } = this.#deps
    const { row } = this
    let next: Pending = { target, body: planned.body, reserve }
    this.#pending.add(next)
    try {
      const raising = this.#raise()
      let refusal = raising instanceof Promise ? await raising : raising
      if (refusal && this.#mayCap(planned)) {
        this.#pending.delete(next)
        next = this.#toCapped(next)
        this.#pending.add(next)
        refusal = await this.#raise()
      }
      if (refusal) throw refusal
      if (next.body !== planned.body) this.outputCap = capOf(next.body)
      if (this.#isClosed || signal.aborted) throw endedBy('superseded')
      const ended = this.#calls.flatMap((one) => (this.#told.has(one.number) ? [] : (toEndedCall(row, one) ?? [])))
      const opened: OpenCall = {
        requestId: row.id,
        number: this.count + 1,
        instance: row.instance,
        reason: isPassedOver || reason === 'first' ? 'fallback' : reason,
        upstream: target.upstream.id,
        upstreamModel: target.upstreamModel,
        lane: laneOf(planned),
        createdMs: now(),
        priceId: target.priceId,
        ...next.reserve,
      }
      const call = this.#add(target, next.body, opened.lane, opened)
      const recorded = this.#record(call, opened, next, ended)
      this.#recording.push(recorded)
      await recorded
      if (!this.#isClosed && !signal.aborted) return call
      const error = endedBy('superseded')
      call.meter.end('failed', error)
      throw error
    } finally {
      this.#pending.delete(next)
    }
  }

  async #record(call: Call, opened: OpenCall, pending: Pending, ended: readonly SettledCall[]): Promise<void> {
    await this.#deps.ledger.openCall(opened, ended)
    for (const { number } of ended) this.#told.add(number)
    this.#pending.delete(pending)
    this.#calls.push(call)
  }

  /** True if a call over budget may get an output cap. Not for parallel choices, which have their own shares. */
  #mayCap({ body, reason }: Pick<PlannedCall, 'body' | 'reason'>): boolean {
    const { isUncapped, reservation } = this.#deps
    return isUncapped && reservation.hasBudget && !body.stream && reason !== 'fan_out'
  }

  #toCapped({ target, body, reserve }: Pending): Pending {
    const { reservation, counter } = this.#deps
    const others = askForAll(counter, this.quotaId, this.row, true, this.#calls, this.#pending).nanoUsd
    const prompt = worstPrompt(body)
    const choices = body.n ?? 1
    const most = Math.floor(reserve.reservedCompletionTokens / choices)
    const priceAt = (cap: number) => others + toMostNanoUsd(target, prompt, cap * choices, body)
    const cap = findCap(toLeastCap(most), most, reservation.room(), priceAt)
    const estimate = { promptTokens: reserve.reservedPromptTokens, completionTokens: cap * choices }
    return { target, body: withCap(body, cap, target), reserve: toReserve(target, estimate, body) }
  }

  /** Reserves the actual or maximum cost of all calls, pending ones included. */
  #raise(isMore = false): GatewayError | null | Promise<GatewayError | null> {
    const { reservation, counter } = this.#deps
    const ask = askForAll(counter, this.quotaId, this.row, reservation.hasBudget, this.#calls, this.#pending)
    return reservation.raise({ ...ask, isMore })
  }
}
