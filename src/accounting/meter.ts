/**
 * Watches one call and bills it: by what its upstream reported to have used, or else by a count of what it sent, marked as
 * ours. `dispatch` puts it over every answer, whatever reads that answer later, so that no paid call goes unmetered.
 */
import { UpstreamError } from '../domain/error.ts'
import type { AnswerEvent } from '../domain/events.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import { NO_USAGE, type Usage } from '../domain/usage.ts'
import type { Outcome } from '../store/ledger-rows.ts'
import type { CapturedOutput, Counter } from '../tokens/count.ts'
import { costNanoUsd } from './price.ts'

/** Of one choice; what is beyond it is counted by the ratio of what came before. */
const MAX_CAPTURED_CHARS = 64 * 1024

/** A piece of a chunk keeps all of its chunk in memory, which is some fifty times as long: so many at most stay pieces. */
const MAX_PIECES = 64

/** A text as far as it is kept, of which the last pieces are as they came, and the UTF-8 bytes beyond. */
interface Captured {
  text: string
  pieces: string[]
  chars: number
  more: number
}

export class Meter {
  readonly #startedAt = performance.now()
  /** By choice: what was said, and what was thought. */
  readonly #answer: Captured[] = []
  readonly #reasoning: Captured[] = []
  /** Base64 characters of audio. */
  #audioChars = 0
  /** Called once, when the call has ended; whoever waits for it sets it. */
  onEnd: ((meter: Meter) => void) | null = null
  /** What the upstream reported; null where it did not. */
  usage: Usage | null = null
  /** Whether something was said after that: an upstream that reports while it still writes has not reported all. */
  #isOutdated = false
  /** How the call ended: `failed` delivered nothing, `cut` something. Null while it is under way. */
  outcome: 'ok' | 'failed' | 'cut' | null = null
  /** Why it did not end well. */
  error: unknown = null
  upstreamRequestId: string | null = null
  firstTokenMs: number | null = null
  durationMs: number | null = null

  /** Whether the upstream reported all that the call has used so far. */
  get isReported(): boolean {
    return this.usage !== null && !this.#isOutdated
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
          this.#capture(this.#reasoning, event.choice, event.text)
          break
        case 'tool':
          this.#capture(this.#answer, event.choice, event.name)
          break
        case 'usage':
          this.usage = event.usage
          this.#isOutdated = false
          break
        case 'done':
          this.end('ok')
          break
        case 'failure':
          this.end(this.firstTokenMs === null ? outcomeOf(event.error) : 'cut', event.error)
          break
        case 'audio':
          this.#hear(event.audio)
          break
        case 'annotations':
        case 'finish':
        case 'origin':
          break
        default:
          event satisfies never
      }
    }
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
    this.durationMs = this.#elapsedMs()
    this.onEnd?.(this)
  }

  /** What came so far, for a count. */
  captured(): CapturedOutput {
    const join = (texts: Captured[]) => texts.map(({ text, pieces }) => text + pieces.join(''))
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
    this.#isOutdated = true
    this.firstTokenMs ??= this.#elapsedMs()
    while (texts.length <= choice) texts.push({ text: '', pieces: [], chars: 0, more: 0 })
    const kept = texts[choice] as Captured
    const room = MAX_CAPTURED_CHARS - kept.chars
    kept.chars += text.length
    if (room > 0) kept.pieces.push(text.length <= room ? text : text.slice(0, room))
    if (kept.pieces.length >= MAX_PIECES) {
      // Joining copies, and lets the chunks go.
      kept.text += kept.pieces.join('')
      kept.pieces = []
    }
    if (text.length <= room) return
    kept.more += Buffer.byteLength(text.slice(Math.max(0, room)))
  }

  /** What is said as audio is told in words, too. */
  #hear({ data, transcript }: { data?: unknown; transcript?: unknown }): void {
    if (typeof transcript === 'string') this.#capture(this.#answer, 0, transcript)
    if (typeof data !== 'string' || data === '') return
    this.#isOutdated = true
    this.firstTokenMs ??= this.#elapsedMs()
    this.#audioChars += data.length
  }

  #elapsedMs(): number {
    return Math.round(performance.now() - this.#startedAt)
  }
}

const outcomeOf = (error: unknown) => (error instanceof UpstreamError && error.kind === 'aborted' ? 'cut' : 'failed')

/** What one call used and costs, rounded once. */
export interface Bill {
  status: Outcome['status']
  usage: Usage
  /** Some count of `usage` is ours and not the upstream's. */
  estimated: boolean
  costNanoUsd: number
}

/**
 * Bills one call. A call that failed delivered nothing and costs nothing; one that was broken off costs what it had
 * come to; a figure that is missing is counted. Only what must be counted makes it wait.
 * @param requestStatus how its request ends: that of a call that nobody has ended.
 */
export function toBill(
  { target, body, meter }: { target: Target; body: CanonicalRequest; meter: Meter },
  requestStatus: Outcome['status'],
  counter: Counter,
  keyId: string,
): Bill | Promise<Bill> {
  const { outcome, usage } = meter
  const status = outcome ?? (requestStatus === 'ok' ? 'ok' : 'cut')
  if (status === 'failed') return { status, usage: NO_USAGE, estimated: false, costNanoUsd: 0 }
  if (status === 'ok' && usage && meter.isReported) return charge(target, status, usage, false)
  return counter
    .usage(keyId, body, meter.captured())
    .then((counted) => charge(target, status, usage ? toLarger(usage, counted) : counted, true))
}

function charge({ pricing }: Target, status: Outcome['status'], usage: Usage, estimated: boolean): Bill {
  return { status, usage, estimated, costNanoUsd: costNanoUsd(pricing, usage) }
}

/** What a row of the ledger says of a bill. */
export const toBilled = ({ usage, estimated, costNanoUsd }: Omit<Bill, 'status'>) => ({
  promptTokens: usage.prompt,
  cachedTokens: usage.cacheRead,
  cacheWriteTokens: usage.cacheWrite + usage.cacheWrite1h,
  completionTokens: usage.completion,
  reasoningTokens: usage.reasoning,
  audioPromptTokens: usage.audioPrompt,
  audioCompletionTokens: usage.audioCompletion,
  imageTokens: usage.imagePrompt + usage.imageCompletion,
  estimated: estimated ? 1 : 0,
  costNanoUsd,
})

/** The larger figure counts: some upstreams report while nearly nothing is written, and no more. */
function toLarger(reported: Usage, counted: Usage): Usage {
  const { prompt, audioPrompt, imagePrompt } = reported.prompt > 0 ? reported : counted
  return {
    ...reported,
    ...{ prompt, audioPrompt, imagePrompt },
    completion: Math.max(reported.completion, counted.completion),
    reasoning: Math.max(reported.reasoning, counted.reasoning),
    audioCompletion: Math.max(reported.audioCompletion, counted.audioCompletion),
  }
}
