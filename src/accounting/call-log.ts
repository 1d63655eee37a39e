/**
 * The calls of one request. A call is on record before it is made: the first one stands inline in the row that the gateway
 * has opened, an additional one gets a row of `calls` here, and room in the budget. What each of them used is read off its
 * meter when the request is settled.
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
  /** The target that `row` was opened for. */
  first: Target
  reservation: Pick<Reservation, 'raise' | 'room' | 'hasBudget' | 'releaseSlot'>
  /** Whether its client has given no cap, and the one of ours that its first target is sent; null for none. */
  isUncapped: boolean
  outputCap: number | null
  /** Aborts when the client leaves or the server stops. */
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
  /** The request's row, with what its first call holds by now. */
  row: OpenRow
  /** The cap of ours that a call was last sent, because the budget had no room for all that the model writes; null for none. */
  outputCap: number | null
  readonly #recording: Promise<void>[] = []
  readonly #pending = new Set<Pending>()
  /** Numbers of calls of which one that is on record says how they ended. */
  readonly #told = new Set<number>()
  #isClosed = false
  /** How many calls were begun; a first target that was passed over counts as one. */
  count = 0

  constructor(deps: CallLogDeps) {
    this.#deps = deps
    this.row = deps.row
    this.outputCap = deps.outputCap
  }

  /** Id of the upstream that was tried last. */
  get upstream(): string {
    return this.#calls.at(-1)?.target.upstream.id ?? this.row.upstream
  }

  /** Whose turns its work on threads takes. */
  get quotaId(): string {
    return this.#deps.key.quotaId
  }

  /** When a call noticed that nobody gets its answer any more, by `performance.now()`; null where none has. */
  get leftMs(): number | null {
    for (const { leftMs } of this.#calls) if (leftMs !== null) return leftMs
    return null
  }

  /** What a call may at most use and cost, if it is begun next. */
  reserveOf({ target, body }: Pick<PlannedCall, 'target' | 'body'>): Reserve {
    if (this.count === 0 && target === this.#deps.first) return reserveIn(this.row)
    const isSeen = body.stream === true || !this.#deps.reservation.hasBudget
    const completionTokens = toHeldOutput(body, target.maxOutputLength, isSeen) * (body.n ?? 1)
    return toReserve(target, { promptTokens: estimatePrompt(body), completionTokens }, body)
  }

  /**
   * Gives the call once it is on record. Throws `ledger_unavailable`; `insufficient_quota` where a budget has no room for
   * one more; `aborted` where nobody waits any more.
   */
  begin(planned: PlannedCall, reserve: Reserve): Call | Promise<Call> {
    if (this.#isClosed || planned.signal.aborted) throw endedBy('superseded')
    const { target, body } = planned
    const lane = laneOf(planned)
    const { first } = this.#deps
    const isPassedOver = this.count === 0 && target !== first
    if (isPassedOver) {
      // The row names a target that was not called after all: its provider's limit was reached, or its breaker opened.
      const call = this.#add(first, body, this.row.lane, null)
      this.#calls.push(call)
      call.meter.end('failed', endedBy('superseded'))
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

  /** Has a call hold so many more tokens, if the budgets have room for them: on record, without anybody waiting for that. */
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

  /** Whether a call that the budgets have no room for may be sent a cap, or a smaller one: of several choices each has its own share. */
  #mayCap({ body, reason }: Pick<PlannedCall, 'body' | 'reason'>): boolean {
    const { isUncapped, reservation } = this.#deps
    return isUncapped && reservation.hasBudget && !body.stream && reason !== 'fan_out'
  }

  /** The same call with the largest cap that the budgets have room for. */
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

  /** Makes room for what all calls have come to or may, those on their way to the record among them. */
  #raise(isMore = false): GatewayError | null | Promise<GatewayError | null> {
    const { reservation, counter } = this.#deps
    const ask = askForAll(counter, this.quotaId, this.row, reservation.hasBudget, this.#calls, this.#pending)
    return reservation.raise({ ...ask, isMore })
  }
}
