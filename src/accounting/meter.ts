/**
 * Watches one call: reported usage, output, outcome, and duration. Wraps every response, so that every paid call is
 * metered.
 */
import { UpstreamError } from '../domain/error.ts'
import type { AnswerEvent } from '../domain/events.ts'
import type { ModelUsage, Usage, Variant } from '../domain/usage.ts'
import type { CapturedOutput } from '../tokens/count.ts'
import { tokensWritten } from '../tokens/estimate.ts'

/** Deadlines that can pass before any work is done. */
const UNBEGUN: ReadonlySet<string | null> = new Set(['headers', 'start', 'queue', 'token'])

/** Minimum output and time for measuring an upstream's speed. */
const MIN_MEASURED = 16
const MIN_MEASURED_MS = 100

export class Meter {
  readonly #monotonicMs: () => number
  readonly startedMs: number
  readonly #answer: Captured[] = []
  readonly #reasoning: Captured[] = []
  /** The first choice, which has nearly all text. */
  #first: Captured | null = null
  #audioChars = 0
  onEnd: ((meter: Meter) => void) | null = null
  usage: Usage | null = null
  others: readonly ModelUsage[] = []
  /** Reported service mode; null for the default. */
  mode: string | null = null
  /** Size and quality of images. */
  variant: Variant | null = null
  /** The upstream's own charge, if reported at the end. */
  chargedNanoUsd: number | null = null
  /** True if output followed the usage report, which is then incomplete. */
  #isOutdated = false
  /** True if some reasoning was summarized or encrypted. */
  #isThoughtHidden = false
  hasCited = false
  /** `failed`: delivered nothing. `cut`: interrupted after some output. Null while running. */
  outcome: 'ok' | 'failed' | 'cut' | null = null
  error: unknown = null
  upstreamRequestId: string | null = null
  /** Number of its upstream's credential; null if it has one or none. */
  credential: number | null = null
  firstTokenMs: number | null = null
  /** When the answer began, after any reasoning, ms from the start; else null. */
  answeredMs: number | null = null
  /** Characters written. */
  written = 0
  /** Characters at which the hold is checked again. */
  lookAt = Number.POSITIVE_INFINITY
  #saidPerSecond: number | null = null
  durationMs: number | null = null
  /** By the monotonic clock, like `startedMs`. */
  endedMs: number | null = null
  /** When the call was sent, ms from the start; null before, or if time has no price. */
  #sentAfterMs: number | null = null
  #wake = () => {}

  /** @param monotonicMs monotonic clock, ms. The call begins now. */
  constructor(monotonicMs: () => number = now) {
    this.#monotonicMs = monotonicMs
    this.startedMs = monotonicMs()
  }

  /** True if all usage so far is reported. Without output, no tokens are missing. */
  get isReported(): boolean {
    const { usage, others } = this
    if (usage === null || this.#isOutdated) return false
    const hasWritten = usage.completion > 0 || others.some((other) => other.usage.completion > 0)
    return hasWritten || this.firstTokenMs === null || Boolean(usage.countedBy)
  }

  /** True if all reasoning so far was sent as plain text. */
  get hasReasoned(): boolean {
    return this.#reasoning.length > 0 && !this.#isThoughtHidden
  }

  get isTooLong(): boolean {
    return this.error instanceof UpstreamError && this.error.isTooLong
  }

  /** True if its upstream failed before the first token. Such a call is not charged. */
  get isUnpaid(): boolean {
    return this.outcome === 'failed' && !this.isGivenUp
  }

  /**
   * True if Tollgate stopped reading or waiting, or the output is unusable. Unless the upstream never started, it may
   * charge for the call.
   */
  get isGivenUp(): boolean {
    const { outcome, error } = this
    const isSpoiled = error instanceof UpstreamError && error.isSpoiled
    const isLate = error instanceof UpstreamError && error.kind === 'deadline' && !UNBEGUN.has(error.deadline)
    return outcome === 'failed' && (isLate || isSpoiled || this.isTooLong)
  }

  get elapsedMs(): number {
    return this.durationMs ?? Math.round(this.#monotonicMs() - this.startedMs)
  }

  /** Null if the response is incomplete, or too short or quick to measure. */
  get tokensPerSecond(): number | null {
    const { outcome, usage, firstTokenMs, durationMs, isReported } = this
    if (outcome !== 'ok' || !isReported || usage === null || usage.completion < MIN_MEASURED) return null
    if (this.#saidPerSecond !== null) return this.#saidPerSecond
    const ms = durationMs !== null && firstTokenMs !== null ? durationMs - firstTokenMs : 0
    return ms < MIN_MEASURED_MS ? null : ((usage.completion - 1) / ms) * 1_000
  }

  /** If called several times, the last time counts. */
  sent(): void {
    this.#sentAfterMs = this.elapsedMs
  }

  /** How long its upstream has worked, ms; 0 if `sent` was never called. */
  get workedMs(): number {
    return this.#sentAfterMs === null ? 0 : this.elapsedMs - this.#sentAfterMs
  }

  async ended(): Promise<void> {
    if (this.outcome !== null) return
    await new Promise<void>((resolve) => {
      this.#wake = resolve
    })
  }

  get audioChars(): number {
    return this.#audioChars
  }

  estimateText(): number {
    let tokens = 0
    for (const each of this.#answer) tokens += each.estimate()
    for (const each of this.#reasoning) tokens += each.estimate()
    return tokens
  }

  take(events: readonly AnswerEvent[]): void {
    for (const event of events) {
      switch (event.kind) {
        case 'text':
        case 'refusal':
        case 'arguments':
          this.#capture(this.#answer, event.choice, event.text)
          break
        case 'reasoning':
          if (event.details?.some(isHidden)) this.#isThoughtHidden = true
          this.#capture(this.#reasoning, event.choice, event.text)
          break
        case 'tool':
          this.#capture(this.#answer, event.choice, event.name)
          break
        case 'usage':
          this.usage = event.usage
          this.others = event.others ?? []
          this.#saidPerSecond = event.tokensPerSecond ?? null
          this.#isOutdated = false
          break
        case 'mode':
          this.mode = event.mode
          this.variant =
            event.size || event.quality ? { size: event.size ?? null, quality: event.quality ?? null } : null
          break
        case 'charged':
          this.chargedNanoUsd = event.nanoUsd
          break
        case 'done':
          this.end('ok')
          break
        case 'failure':
          this.end(this.firstTokenMs === null ? outcomeOf(event.error) : 'cut', event.error)
          break
        case 'audio':
          this.#takeAudio(event.audio)
          break
        case 'images':
          this.#see()
          break
        case 'bytes':
          this.#see()
          this.#audioChars += Math.ceil((event.bytes.length * 4) / 3)
          break
        case 'raw':
          if (event.isContent && this.firstTokenMs === null) this.#see()
          break
        case 'annotations':
          if (event.items.some(isPage)) this.hasCited = true
          break
        // Embeddings have no output tokens, and arrive with the usage.
        case 'embeddings':
        case 'result':
        case 'finish':
        case 'origin':
        case 'working':
        case 'unmet':
          break
        default:
          event satisfies never
      }
    }
  }

  takeText(text: string): void {
    if (this.#first === null) {
      this.#capture(this.#answer, 0, text)
      this.#first = this.#answer[0] ?? null
      return
    }
    this.#see()
    this.written += text.length
    this.#first.add(text)
  }

  /** Ends without a complete response. A call that Tollgate gave up is charged for its usage so far. */
  fail(error: unknown): void {
    this.end(outcomeOf(error), error)
  }

  /** Only the first outcome counts. */
  end(outcome: NonNullable<Meter['outcome']>, error: unknown = null): void {
    if (this.outcome !== null) return
    this.outcome = outcome
    this.error = error
    this.endedMs = this.#monotonicMs()
    this.durationMs = Math.round(this.endedMs - this.startedMs)
    this.onEnd?.(this)
    this.#wake()
  }

  captured(): CapturedOutput {
    const join = (texts: Captured[]) => texts.map(({ text }) => text)
    const more = (texts: Captured[]) => texts.reduce((sum, each) => sum + each.more, 0)
    return {
      answer: join(this.#answer),
      reasoning: join(this.#reasoning),
      audioChars: this.#audioChars,
      moreAnswer: more(this.#answer),
      moreReasoning: more(this.#reasoning),
    }
  }

  #capture(texts: Captured[], choice: number, text: string): void {
    if (text === '') return
    this.#see()
    this.written += text.length
    if (this.answeredMs === null && texts === this.#answer) this.answeredMs = this.elapsedMs
    while (texts.length <= choice) texts.push(new Captured())
    texts[choice]?.add(text)
  }

  /** Audio arrives with its transcript. */
  #takeAudio({ data, transcript }: { data?: unknown; transcript?: unknown }): void {
    if (typeof transcript === 'string') this.#capture(this.#answer, 0, transcript)
    if (typeof data !== 'string' || data === '') return
    this.#see()
    this.#audioChars += data.length
    this.written += data.length
  }

  #see(): void {
    this.#isOutdated = true
    this.chargedNanoUsd = null
    this.firstTokenMs ??= this.elapsedMs
  }
}

const now = () => performance.now()

/** @param detail an item of OpenRouter's `reasoning_details`. */
const isHidden = (detail: object) =>
  'type' in detail && (detail.type === 'reasoning.summary' || detail.type === 'reasoning.encrypted')

/** @param annotation in OpenAI's format. */
const isPage = (annotation: object) => 'type' in annotation && annotation.type === 'url_citation'

const outcomeOf = (error: unknown) =>
  error instanceof UpstreamError && error.kind === 'aborted' && !error.isOwnLimit ? 'cut' : 'failed'

/** Default per choice; text beyond it is counted by the ratio of the text before. */
const MAX_CHARS = 64 * 1024

/**
 * A piece keeps its whole chunk in memory, which is about fifty times as long. With 64 pieces, garbage collections took
 * four times as long.
 */
const MAX_PIECES = 8

export class Captured {
  readonly #maxChars: number
  #text = ''
  #last = ''
  #pieces = 0
  #chars = 0
  more = 0
  #tokens = 0
  #estimated = 0

  constructor(maxChars = MAX_CHARS) {
    this.#maxChars = maxChars
  }

  get text(): string {
    return this.#text + this.#last
  }

  /** Estimated tokens of the whole text, computed incrementally. */
  estimate(): number {
    const { text, more } = this
    this.#tokens += tokensWritten(text, this.#estimated)
    this.#estimated = text.length
    return more === 0 ? this.#tokens : this.#tokens * (1 + more / Buffer.byteLength(text))
  }

  add(text: string): void {
    const room = this.#maxChars - this.#chars
    this.#chars += text.length
    if (room > 0) this.#keep(text.length <= room ? text : text.slice(0, room))
    if (text.length > room) this.more += Buffer.byteLength(text.slice(Math.max(0, room)))
  }

  #keep(text: string): void {
    this.#last += text
    if (++this.#pieces < MAX_PIECES) return
    // The copy releases the chunks.
    this.#text += [this.#last, ''].join('')
    this.#last = ''
    this.#pieces = 0
  }
}
