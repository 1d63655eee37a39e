/**
 * Watches one call: what its upstream reported to have used, what it sent, how it ended, and how long that took. `dispatch`
 * puts it over every answer, whatever reads that answer later, so that no paid call goes unmetered; `bill.ts` bills it.
 */
import { UpstreamError } from '../domain/error.ts'
import type { AnswerEvent } from '../domain/events.ts'
import type { ModelUsage, Usage } from '../domain/usage.ts'
import type { CapturedOutput } from '../tokens/count.ts'
import { tokensWritten } from '../tokens/estimate.ts'

/** Deadlines within which nothing was worked. */
const UNBEGUN: ReadonlySet<string | null> = new Set(['headers', 'start', 'queue', 'token'])

/** Fewer tokens, or less time from the first to the last, say nothing of how fast an upstream writes. */
const MIN_MEASURED = 16
const MIN_MEASURED_MS = 100

export class Meter {
  readonly #monotonicMs: () => number
  readonly #startedMs: number
  /** By choice: what was said, and what was thought. */
  readonly #answer: Captured[] = []
  readonly #reasoning: Captured[] = []
  /** Of the answer the first choice: nearly all text is its. */
  #first: Captured | null = null
  /** Base64 characters of audio. */
  #audioChars = 0
  /** Called once, when the call has ended; whoever waits for it sets it. */
  onEnd: ((meter: Meter) => void) | null = null
  /** What the upstream reported; null where it did not. */
  usage: Usage | null = null
  /** What it reported of other models within the call. */
  others: readonly ModelUsage[] = []
  /** How it said that it serves the call; null for as most are. */
  mode: string | null = null
  /** What it charges by its own word, where it has said so at its end. */
  chargedNanoUsd: number | null = null
  /** Whether something was said after that: an upstream that reports while it still writes has not reported all. */
  #isOutdated = false
  /** Whether some reasoning was sent as a summary of it, or encrypted. */
  #isThoughtHidden = false
  /** Whether its words name pages of the web that they are from. */
  hasCited = false
  /** How the call ended: `failed` delivered nothing, `cut` something. Null while it is under way. */
  outcome: 'ok' | 'failed' | 'cut' | null = null
  /** Why it did not end well. */
  error: unknown = null
  upstreamRequestId: string | null = null
  /** By which of its upstream's credentials it goes; null where that has one or none. */
  credential: number | null = null
  firstTokenMs: number | null = null
  /** When it began to answer, and not only to think, ms after its beginning; null before that. */
  answeredMs: number | null = null
  /** How many characters it has written, and at how many somebody looks what that comes to. */
  written = 0
  lookAt = Number.POSITIVE_INFINITY
  /** How fast it has written, by its own word, where it has said so. */
  #saidPerSecond: number | null = null
  durationMs: number | null = null
  /** How long after its beginning it was sent, ms; null before that, and where nobody wants to know. */
  #sentAfterMs: number | null = null
  #wake = () => {}

  /** @param monotonicMs a clock that never steps, ms. The call begins now. */
  constructor(monotonicMs: () => number = now) {
    this.#monotonicMs = monotonicMs
    this.#startedMs = monotonicMs()
  }

  /** Whether the upstream reported all that the call has used so far: no words are no tokens. */
  get isReported(): boolean {
    const { usage, others } = this
    const hasWritten = usage !== null && (usage.completion > 0 || others.some((other) => other.usage.completion > 0))
    return usage !== null && !this.#isOutdated && (hasWritten || this.firstTokenMs === null)
  }

  /** Whether all reasoning was sent in words, as far as it came. */
  get hasReasoned(): boolean {
    return this.#reasoning.length > 0 && !this.#isThoughtHidden
  }

  /** Whether it was left unread though it went on: it was longer than what is read. */
  get isTooLong(): boolean {
    return this.error instanceof UpstreamError && this.error.isTooLong
  }

  /** Whether its upstream failed at it before the first word: nothing is paid for that. */
  get isUnpaid(): boolean {
    return this.outcome === 'failed' && !this.isGivenUp
  }

  /**
   * Whether it failed because we stopped reading or waiting, or because what was written is of no use: its upstream may have worked,
   * and charge for it. One that has not even begun a stream in time has not, nor one that was not asked yet.
   */
  get isGivenUp(): boolean {
    const { outcome, error } = this
    const isSpoiled = error instanceof UpstreamError && error.isSpoiled
    const isLate = error instanceof UpstreamError && error.kind === 'deadline' && !UNBEGUN.has(error.deadline)
    return outcome === 'failed' && (isLate || isSpoiled || this.isTooLong)
  }

  /** How long the call has taken, to its end or so far. */
  get elapsedMs(): number {
    return this.durationMs ?? Math.round(this.#monotonicMs() - this.#startedMs)
  }

  /** How fast it has written an answer that came to its end; null where that was too short, or too quick, to say. */
  get tokensPerSecond(): number | null {
    const { outcome, usage, firstTokenMs, durationMs, isReported } = this
    if (outcome !== 'ok' || !isReported || usage === null || usage.completion < MIN_MEASURED) return null
    if (this.#saidPerSecond !== null) return this.#saidPerSecond
    const ms = durationMs !== null && firstTokenMs !== null ? durationMs - firstTokenMs : 0
    return ms < MIN_MEASURED_MS ? null : ((usage.completion - 1) / ms) * 1_000
  }

  /** Notes that the call goes out to its upstream now. The last time counts. */
  sent(): void {
    this.#sentAfterMs = this.elapsedMs
  }

  /** How long its upstream has been at work on it, to its end or so far, ms; 0 where `sent` was not said. */
  get workedMs(): number {
    return this.#sentAfterMs === null ? 0 : this.elapsedMs - this.#sentAfterMs
  }

  /** Resolves once the call has ended. */
  async ended(): Promise<void> {
    if (this.outcome !== null) return
    await new Promise<void>((resolve) => {
      this.#wake = resolve
    })
  }

  /** Base64 characters of audio so far. */
  get audioChars(): number {
    return this.#audioChars
  }

  /** What all text so far comes to by an estimate, in tokens. */
  estimateText(): number {
    let tokens = 0
    for (const each of this.#answer) tokens += each.estimate()
    for (const each of this.#reasoning) tokens += each.estimate()
    return tokens
  }

  /** Takes what the call has answered. */
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
        case 'raw':
          if (event.isContent && this.firstTokenMs === null) this.#see()
          break
        case 'annotations':
          if (event.items.some(isPage)) this.hasCited = true
          break
        // Vectors have no tokens.
        case 'embeddings':
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

  /** Takes a piece of what its first choice says. */
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

  /** Notes that there was no answer. A call that we gave up is paid for as far as it had come. */
  fail(error: unknown): void {
    this.end(outcomeOf(error), error)
  }

  /** Notes how the call ended. The first time counts. */
  end(outcome: NonNullable<Meter['outcome']>, error: unknown = null): void {
    if (this.outcome !== null) return
    this.outcome = outcome
    this.error = error
    this.durationMs = this.elapsedMs
    this.onEnd?.(this)
    this.#wake()
  }

  /** What came so far, for a count. */
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

  /** What is said as audio is told in words, too. */
  #takeAudio({ data, transcript }: { data?: unknown; transcript?: unknown }): void {
    if (typeof transcript === 'string') this.#capture(this.#answer, 0, transcript)
    if (typeof data !== 'string' || data === '') return
    this.#see()
    this.#audioChars += data.length
    this.written += data.length
  }

  /** Something was said. */
  #see(): void {
    this.#isOutdated = true
    this.chargedNanoUsd = null
    this.firstTokenMs ??= this.elapsedMs
  }
}

const now = () => performance.now()

/** @param detail an item of `reasoning_details`, in OpenRouter's words. */
const isHidden = (detail: object) =>
  'type' in detail && (detail.type === 'reasoning.summary' || detail.type === 'reasoning.encrypted')

/** @param annotation in OpenAI's words. */
const isPage = (annotation: object) => 'type' in annotation && annotation.type === 'url_citation'

const outcomeOf = (error: unknown) =>
  error instanceof UpstreamError && error.kind === 'aborted' && !error.isOwnLimit ? 'cut' : 'failed'

/** Of one choice, unless told otherwise; what is beyond it is counted by the ratio of what came before. */
const MAX_CHARS = 64 * 1024

/**
 * A piece of a chunk keeps all of its chunk in memory, which is some fifty times as long: so many at most stay pieces. Those that
 * live through a collection stay until the next full one: with 64 of them, collections took four times as long.
 */
const MAX_PIECES = 8

/** One text: its beginning, and how many UTF-8 bytes are beyond. */
export class Captured {
  readonly #maxChars: number
  #text = ''
  /** The last pieces, which the runtime has not joined yet. */
  #last = ''
  #pieces = 0
  #chars = 0
  more = 0
  /** Estimated so far, and of how many characters. */
  #tokens = 0
  #estimated = 0

  constructor(maxChars = MAX_CHARS) {
    this.#maxChars = maxChars
  }

  get text(): string {
    return this.#text + this.#last
  }

  /** All of it as an estimate, which goes on where the last one ended. */
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
    // Copied, which alone lets the chunks go.
    this.#text += [this.#last, ''].join('')
    this.#last = ''
    this.#pieces = 0
  }
}
