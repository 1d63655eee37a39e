import type { EndSignal, Part } from '../domain/end-signal.ts'
import { EndpointRequest } from '../domain/endpoint-request.ts'
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

export interface PlannedCall {
  target: Target
  used?: Upstream | null
  /** The canonical body. Wrappers of a dispatch change copies. */
  body: AnyRequest
  /** Passed-through request; null if translated. */
  passthrough: PassthroughRequest | null
  /** `retry` and `fallback` after a failed call, `limit` after one rejected by our own limits. */
  reason: CallReason
  /** Aborts when the response is no longer wanted. */
  signal: EndSignal
}

export interface CallDeps {
  key: Pick<Key, 'quotaId' | 'limits'>
  reservation: Pick<Reservation, 'releaseSlot'>
  disconnectedCalls: DisconnectedCalls
  /** Monotonic clock, ms. */
  monotonicMs(): number
}

export class Call implements CallObserver {
  readonly #deps: CallDeps
  readonly meter: Meter
  /** When the call noticed the client disconnect or the stop, by `performance.now()`; else null. */
  leftMs: number | null = null
  #reading: Reading | null = null
  /** ID of its span in the request's trace; null without a trace. */
  spanId: string | null = null
  /** Null if everything was reserved at the start. */
  hold: Hold | null = null

  /**
   * @param number from 1.
   * @param row its current row in `calls`; null for the first call.
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

  /** How long to read usage after a client disconnect or a stop, ms; 0 = not at all. */
  get readOnMs(): number {
    const ms = this.#deps.disconnectedCalls.readOnMs(this.target.upstream)
    const { body } = this
    return body instanceof EndpointRequest ? this.#deps.disconnectedCalls.atLeast(ms, body.leastReadOnMs) : ms
  }

  sent(): void {
    if (isTimed(this.target.pricing)) this.meter.sent()
  }

  /** Frees the request's slot. */
  left(reading: Reading): number {
    const { key, reservation, disconnectedCalls } = this.#deps
    this.leftMs = performance.now()
    this.#reading = reading
    reservation.releaseSlot()
    const ms = this.readOnMs
    if (ms > 0) disconnectedCalls.add(key, reading)
    return ms
  }

  over(): void {
    this.hold?.end()
    if (this.#reading !== null) this.#deps.disconnectedCalls.delete(this.#deps.key.quotaId, this.#reading)
  }
}

/** Clients disconnect and reconnect quickly. */
const MIN_OF_A_KEY = 8
const DRAIN_MS = 2_000

export class DisconnectedCalls {
  readonly #disconnectGraceMs: number
  readonly #readings = new Map<string, Set<Reading>>()
  #isDraining = false

  /** @param disconnectGraceMs the default for upstreams; 0 = not at all. */
  constructor({ disconnectGraceMs }: { disconnectGraceMs: number }) {
    this.#disconnectGraceMs = disconnectGraceMs
  }

  /** Ms. By default 0 for local upstreams, which cost nothing and whose capacity is needed. */
  readOnMs({ disconnectGraceMs, local }: Pick<Upstream, 'disconnectGraceMs' | 'local'>): number {
    const ms = disconnectGraceMs ?? (local ? 0 : this.#disconnectGraceMs)
    return this.#isDraining ? Math.min(ms, DRAIN_MS) : ms
  }

  atLeast(ms: number, least: number): number {
    return this.#isDraining ? ms : Math.max(ms, least)
  }

  /** If the key exceeds its concurrency limit, its oldest reading ends. */
  add({ quotaId, limits }: Pick<Key, 'quotaId' | 'limits'>, reading: Reading): void {
    const readings = this.#readings.getOrInsertComputed(quotaId, () => new Set())
    const [oldest] = readings
    if (oldest && limits.concurrency !== null && readings.size >= Math.max(MIN_OF_A_KEY, limits.concurrency)) {
      readings.delete(oldest)
      oldest.endWithin(0)
    }
    readings.add(reading)
  }

  /** Idempotent. */
  delete(quotaId: string, reading: Reading): void {
    const readings = this.#readings.get(quotaId)
    if (readings?.delete(reading) && readings.size === 0) this.#readings.delete(quotaId)
  }

  /** Shortens all readings, for a shutdown. */
  drain(): void {
    this.#isDraining = true
    for (const readings of this.#readings.values()) for (const reading of readings) reading.endWithin(DRAIN_MS)
  }
}

/** Step per choice. */
const STEP_TOKENS = DEFAULT_OUTPUT_TOKENS
/** A hold grows when this many tokens are left, so that growth is recorded before it is used. */
const SPARE_TOKENS = 1_024
/** Minimum text and time between two checks. */
const MIN_CHARS = 256
const MIN_MS = 20

type Decided = GatewayError | null | Promise<GatewayError | null>

/**
 * The tokens reserved for a stream without a client's cap: 4,096 per choice. Grows in the same steps as the stream
 * writes or, under a budget, may reason unseen. Holds are recorded, and a crash charges them. If a budget can't cover
 * even a smaller step, the stream ends once a count shows that the hold is used up.
 */
export class Hold {
  readonly #call: Call
  /** Time matters only under a budget. */
  readonly isBudgeted: boolean
  readonly #grow: (tokens: number) => Decided
  readonly #count: () => Promise<number>
  /** Tokens by which the estimate of its output exceeded the count. */
  #excess = 0
  readonly #most: number
  readonly #choices: number
  #part: Pick<Part, 'end'> | null = null
  #growing: Promise<GatewayError | null> | null = null
  #timer: Timer | null = null
  tokens: number
  refusal: GatewayError | null = null

  /**
   * @param grow reserves and records more tokens, or returns an error.
   * @param count counts the tokens written so far.
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

  /** True if unseen reasoning must be assumed as time passes. */
  get isTimed(): boolean {
    const { target, meter } = this.#call
    const isQuiet = target.features.includes('reasoning') && !meter.hasReasoned
    return this.isBudgeted && isQuiet && meter.answeredMs === null && meter.outcome === null
  }

  /** `part` ends the call if it may not continue while it sends nothing. */
  begin(part: Pick<Part, 'end'>): void {
    this.#part = part
    this.#goOn(0, SPARE_TOKENS * this.#choices)
  }

  end(): void {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
    this.#part = null
    this.#call.meter.lookAt = this.refusal ? 0 : Number.POSITIVE_INFINITY
  }

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

  /** Until this decides, nothing else is decided about the call. */
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
    // Other requests may end and free budget before this hold is used up.
    return this.tokens > used ? this.#goOn(used, 0) : this.#endByCount(error)
  }

  /** Ends the call, unless the count is lower than the estimate. */
  async #endByCount(error: GatewayError): Promise<GatewayError | null> {
    const said = this.#said()
    const counted = await this.#count()
    // The call may have ended during counting.
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

  /** The larger of estimated output with unseen reasoning, and the usage reported so far. */
  #used(): number {
    const used = this.#said() - this.#excess + this.#unseen()
    return Math.min(this.#most, Math.max(used, this.#call.meter.usage?.completion ?? 0))
  }

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

  /** Checks again once this many more tokens may be written: text rarely has more tokens than characters. */
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
