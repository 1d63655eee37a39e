/**
 * One call to an upstream, from its plan to its end, what a stream holds for what it writes, and the calls that are read on for their usage
 * after their client has disconnected. `call-log.ts` has the calls of a request.
 */

import type { EndSignal, Part } from '../domain/end-signal.ts'
import type { GatewayError } from '../domain/error.ts'
import type { AnyRequest } from '../domain/request.ts'
import type { Key, Target, Upstream } from '../domain/snapshot.ts'
import { isTimed } from '../domain/tariff.ts'
import type { Lane, PassthroughRequest } from '../domain/task.ts'
import type { Reservation } from '../limits/limiter.ts'
import type { CallReason, OpenCall } from '../store/ledger-rows.ts'
import { DEFAULT_OUTPUT_TOKENS, toMostOutput } from '../tokens/estimate.ts'
import { tokensOfSpeech } from '../tokens/media.ts'
import type { CallObserver, Reading } from '../upstreams/backend.ts'
import { Meter } from './meter.ts'

/** One call to be made. */
export interface PlannedCall {
  target: Target
  /** The target's upstream with one of its several credentials; absent where it has one or none. */
  used?: Upstream | null
  /** The canonical request. Whoever wraps a dispatch changes copies of it. */
  body: AnyRequest
  /** What goes on as it came in place of that; null where the call is translated. */
  passthrough: PassthroughRequest | null
  /** `retry` and `fallback` after a call that failed, `limit` where a limit of ours kept the one before from being made. */
  reason: CallReason
  /** Aborts when the answer is no longer wanted. */
  signal: EndSignal
}

export interface CallDeps {
  key: Pick<Key, 'quotaId' | 'limits'>
  reservation: Pick<Reservation, 'releaseSlot'>
  disconnectedCalls: DisconnectedCalls
  /** A clock that never steps, ms. */
  monotonicMs(): number
}

/** Whom it goes to, what its meter reads, and how it is read on once nobody gets its answer any more: its backend tells it of that. */
export class Call implements CallObserver {
  readonly #deps: CallDeps
  readonly meter: Meter
  /** When it noticed that its client had left or the server stops, by `performance.now()`; null where it has not. */
  leftMs: number | null = null
  #reading: Reading | null = null
  /** What it holds while it writes; null where that is all from the start. */
  hold: Hold | null = null

  /**
   * @param number from 1 on.
   * @param row its row in `calls`, as it stands by now; null for the first call.
   */
  constructor(
    deps: CallDeps,
    readonly number: number,
    readonly target: Target,
    readonly body: AnyRequest,
    readonly lane: Lane,
    public row: OpenCall | null,
  ) {
    this.#deps = deps
    this.meter = new Meter(deps.monotonicMs)
  }

  /** How long it goes on for its usage when its client leaves or the server stops, ms; 0 = not at all. */
  get readOnMs(): number {
    return this.#deps.disconnectedCalls.readOnMs(this.target.upstream)
  }

  /** See `CallObserver`. Whose time costs nothing is not timed. */
  sent(): void {
    if (isTimed(this.target.pricing)) this.meter.sent()
  }

  /** See `CallObserver`. The request's slot is free from now on. */
  left(reading: Reading): number {
    const { key, reservation, disconnectedCalls } = this.#deps
    this.leftMs = performance.now()
    this.#reading = reading
    reservation.releaseSlot()
    const ms = this.readOnMs
    if (ms > 0) disconnectedCalls.add(key, reading)
    return ms
  }

  /** Notes that nothing is read of it any more. */
  over(): void {
    this.hold?.end()
    if (this.#reading !== null) this.#deps.disconnectedCalls.delete(this.#deps.key.quotaId, this.#reading)
  }
}

/** Also for a key with a lower concurrency: clients disconnect and come back within a moment. */
const MIN_OF_A_KEY = 8
/** A stop does not wait for longer. */
const DRAIN_MS = 2_000

export class DisconnectedCalls {
  readonly #disconnectGraceMs: number
  /** By whose share they are, oldest first. */
  readonly #readings = new Map<string, Set<Reading>>()
  #isDraining = false

  /** @param disconnectGraceMs how long, where an upstream has no setting of its own; 0 = not at all. */
  constructor({ disconnectGraceMs }: { disconnectGraceMs: number }) {
    this.#disconnectGraceMs = disconnectGraceMs
  }

  /** How long calls to this upstream are read on, ms. A local one costs nothing, and has better to do. */
  readOnMs({ disconnectGraceMs, local }: Pick<Upstream, 'disconnectGraceMs' | 'local'>): number {
    const ms = disconnectGraceMs ?? (local ? 0 : this.#disconnectGraceMs)
    return this.#isDraining ? Math.min(ms, DRAIN_MS) : ms
  }

  /**
   * Counts one in. Where the key has more than it may have requests under way, its oldest is ended; one without such a limit has
   * as many as it finds places for, which they keep.
   */
  add({ quotaId, limits }: Pick<Key, 'quotaId' | 'limits'>, reading: Reading): void {
    const readings = this.#readings.getOrInsertComputed(quotaId, () => new Set())
    const [oldest] = readings
    if (oldest && limits.concurrency !== null && readings.size >= Math.max(MIN_OF_A_KEY, limits.concurrency)) {
      readings.delete(oldest)
      oldest.endWithin(0)
    }
    readings.add(reading)
  }

  /** Counts one out that has ended. Idempotent. */
  delete(quotaId: string, reading: Reading): void {
    const readings = this.#readings.get(quotaId)
    if (readings?.delete(reading) && readings.size === 0) this.#readings.delete(quotaId)
  }

  /** From now on none is read for long. */
  drain(): void {
    this.#isDraining = true
    for (const readings of this.#readings.values()) for (const reading of readings) reading.endWithin(DRAIN_MS)
  }
}

/** Of each choice. */
const STEP_TOKENS = DEFAULT_OUTPUT_TOKENS
/** A hold grows while so much of it is left, so that it is on record before it is needed. */
const SPARE_TOKENS = 1_024
/** Nobody looks again before so many more characters, or so much more time. */
const MIN_CHARS = 256
const MIN_MS = 20

type Decided = GatewayError | null | Promise<GatewayError | null>

/**
 * What a stream holds where its client has given no cap: at first 4,096 tokens a choice, or all that the model writes, and more in steps of
 * as many while it goes on, or while a model under a budget may think unseen. What is held is on record: a kill charges that. Where a budget
 * has no room for a step, there is a smaller one; without room for that, the stream ends once it has used up what it holds, by a count.
 */
export class Hold {
  readonly #call: Call
  /** Whether time counts: under a budget alone is anything lost by it. */
  readonly isBudgeted: boolean
  readonly #grow: (tokens: number) => Decided
  readonly #count: () => Promise<number>
  /** By how much the estimate of what it wrote was more than its count. */
  #excess = 0
  readonly #most: number
  readonly #choices: number
  #part: Pick<Part, 'end'> | null = null
  #growing: Promise<GatewayError | null> | null = null
  #timer: Timer | null = null
  /** Tokens, all choices together. */
  tokens: number
  /** Why the stream ends; null while it may go on. */
  refusal: GatewayError | null = null

  /**
   * @param tokens what the call was begun with.
   * @param grow makes it so many more, on record and of the budgets, or says why not.
   * @param count counts the tokens of what was written so far.
   */
  constructor(
    call: Call,
    tokens: number,
    isBudgeted: boolean,
    grow: (tokens: number) => Decided,
    count: () => Promise<number>,
  ) {
    this.#call = call
    this.isBudgeted = isBudgeted
    this.#grow = grow
    this.#count = count
    this.#most = toMostOutput(call.body, call.target.maxOutputLength)
    this.#choices = call.body.n ?? 1
    this.tokens = tokens
    this.#goOn(0, SPARE_TOKENS * this.#choices)
  }

  /** Whether its model may think without a word, and time goes by meanwhile. */
  get isTimed(): boolean {
    const { target, meter } = this.#call
    const isQuiet = target.features.includes('reasoning') && !meter.hasReasoned
    return this.isBudgeted && isQuiet && meter.answeredMs === null && meter.outcome === null
  }

  /** The call is on its way. `part` ends it where it may not go on and says nothing. */
  begin(part: Pick<Part, 'end'>): void {
    this.#part = part
    this.#goOn(0, SPARE_TOKENS * this.#choices)
  }

  /** The call is over. */
  end(): void {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
    this.#part = null
    this.#call.meter.lookAt = this.refusal ? 0 : Number.POSITIVE_INFINITY
  }

  /** Grows where that is due. Returns why the stream ends; null where it goes on. */
  look(): Decided {
    if (this.refusal || this.#call.meter.outcome !== null) return this.refusal
    if (this.#growing) return this.#growing
    const used = this.#used()
    const spare = SPARE_TOKENS * this.#choices
    if (this.tokens >= this.#most || this.tokens - used > spare) return this.#goOn(used, spare)
    const decided = this.#growTo(Math.max(this.tokens, used) + STEP_TOKENS * this.#choices)
    if (decided instanceof Promise || decided !== null) return this.#orLess(decided, used, spare)
    return this.#goOn(used, spare)
  }

  /** Nobody lets anything else of the call be decided meanwhile. */
  #orLess(decided: Decided, used: number, spare: number): Decided {
    const first = (error: GatewayError | null): Decided =>
      error === null ? null : this.#growTo(Math.max(this.tokens, used) + spare)
    const next = decided instanceof Promise ? decided.then(first) : first(decided)
    const decide = (error: GatewayError | null) => this.#decide(error, used, spare)
    const last = next instanceof Promise ? next.then(decide) : decide(next)
    if (!(last instanceof Promise)) return last
    this.#growing = last.finally(() => {
      this.#growing = null
    })
    return this.#growing
  }

  #decide(error: GatewayError | null, used: number, spare: number): Decided {
    if (error === null) return this.#goOn(used, spare)
    // Others may end before all of it is used, and leave room.
    return this.tokens > used ? this.#goOn(used, 0) : this.#endByCount(error)
  }

  /** Ends it, unless it has used less by a count than by the estimate. */
  async #endByCount(error: GatewayError): Promise<GatewayError | null> {
    const said = this.#said()
    const counted = await this.#count()
    // It may have ended while something was counted.
    if (this.#call.meter.outcome !== null) return null
    this.#excess = said - counted
    const used = this.#used()
    if (this.tokens > used) return this.#goOn(used, 0)
    this.refusal = error
    return error
  }

  #growTo(tokens: number): Decided {
    const more = Math.min(this.#most, tokens) - this.tokens
    const done = (error: GatewayError | null) => {
      if (error === null) this.tokens += more
      return error
    }
    const decided = this.#grow(more)
    return decided instanceof Promise ? decided.then(done) : done(decided)
  }

  /** What it has come to: what it may have thought and then said, or what its upstream has reported so far. */
  #used(): number {
    const used = this.#said() - this.#excess + this.#unseen()
    return Math.min(this.#most, Math.max(used, this.#call.meter.usage?.completion ?? 0))
  }

  /** By the estimate. */
  #said(): number {
    const { meter, body } = this.#call
    const speech = meter.audioChars > 0 ? tokensOfSpeech(meter.audioChars, body.audio?.format) : 0
    return Math.ceil(meter.estimateText()) + speech
  }

  #unseen(): number {
    const { target, meter } = this.#call
    if (!this.isBudgeted || !target.features.includes('reasoning') || meter.hasReasoned) return 0
    return Math.ceil(((meter.answeredMs ?? meter.elapsedMs) / 1_000) * this.#perSecond)
  }

  get #perSecond(): number {
    return this.#call.target.upstream.options.max_tokens_per_second * this.#choices
  }

  #goOn(used: number, spare: number): null {
    if (this.tokens >= this.#most) this.#watch(Number.POSITIVE_INFINITY)
    else this.#watch(this.tokens - used - spare)
    return null
  }

  /** Looks again once it may have written so many tokens more: text has no more of them than characters, but for rare ones. */
  #watch(tokens: number): void {
    const { meter } = this.#call
    meter.lookAt = meter.written + Math.max(MIN_CHARS, tokens)
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
    if (this.#part === null || tokens === Number.POSITIVE_INFINITY || !this.isTimed) return
    const ms = Math.max(MIN_MS, (tokens / this.#perSecond) * 1_000)
    this.#timer = setTimeout(() => void this.#lookInSilence(), ms)
  }

  async #lookInSilence(): Promise<void> {
    const error = await this.look()
    if (error === null) return
    this.#call.meter.lookAt = 0
    this.#part?.end('superseded')
  }
}
