/**
 * What a stream holds for what it writes, where its client has given no cap: at first 4,096 tokens a choice, or all that the model
 * writes, and more in steps of as many while it goes on. So does the time in which a model under a budget may think unseen, at the rate that
 * it is charged by. What is held is on record (`call-log.ts`): a kill charges that. Where a budget has no room for a step, there is a
 * smaller one; where there is none for that either, the stream ends once it has used up what it holds, by a count of what it wrote.
 */
import type { Part } from '../domain/end-signal.ts'
import type { GatewayError } from '../domain/error.ts'
import { DEFAULT_OUTPUT_TOKENS, toMostOutput } from '../tokens/estimate.ts'
import { tokensOfSpeech } from '../tokens/media.ts'
import type { Call } from './call.ts'

/** Of each choice. */
const STEP_TOKENS = DEFAULT_OUTPUT_TOKENS
/** A hold grows while so much of it is left, so that it is on record before it is needed. */
const SPARE_TOKENS = 1_024
/** Nobody looks again before so many more characters, or so much more time. */
const LEAST_CHARS = 256
const LEAST_MS = 20

type Decided = GatewayError | null | Promise<GatewayError | null>

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
    meter.lookAt = meter.written + Math.max(LEAST_CHARS, tokens)
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
    if (this.#part === null || tokens === Number.POSITIVE_INFINITY || !this.isTimed) return
    const ms = Math.max(LEAST_MS, (tokens / this.#perSecond) * 1_000)
    this.#timer = setTimeout(() => void this.#lookInSilence(), ms)
  }

  async #lookInSilence(): Promise<void> {
    const error = await this.look()
    if (error === null) return
    this.#call.meter.lookAt = 0
    this.#part?.end('superseded')
  }
}
