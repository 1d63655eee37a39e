/**
 * Reads one choice of an answer, streamed or whole, whatever its upstream makes of the format, and says it again as
 * events: in the order thought, text, refusal, calls. A whole message is one delta that says everything. Pure.
 */
import type { AnswerEvent, Logprobs } from '../../../domain/events.ts'
import { asObject, type JsonObject } from '../../../domain/json.ts'
import type { Expected } from '../../backend.ts'
import { ItemNumbers, SurrogateBuffer, toPlainText, toTexts } from './delta.ts'
import { toLogprobs } from './logprobs.ts'
import { ThinkSplitter } from './think.ts'
import { ToolCalls } from './tool-calls.ts'

/** What upstreams call an end; what was called decides which of its reasons clients read. */
const REASONS: Record<string, 'stop' | 'length' | 'content_filter'> = {
  stop: 'stop',
  tool_calls: 'stop',
  tool_use: 'stop',
  function_call: 'stop',
  length: 'length',
  max_tokens: 'length',
  max_output_tokens: 'length',
  max_length: 'length',
  model_length: 'length',
  content_filter: 'content_filter',
  content_filtered: 'content_filter',
  safety: 'content_filter',
  sensitive: 'content_filter',
}

export class ChoiceDecoder {
  readonly #index: number
  readonly #hasLogprobs: boolean
  readonly #think: ThinkSplitter | null
  readonly #content = new SurrogateBuffer()
  readonly #reasoning = new SurrogateBuffer()
  readonly #refusal = new SurrogateBuffer()
  readonly #details = new ItemNumbers(true)
  readonly #annotations = new ItemNumbers(false)
  readonly #callId: string
  /** Made where it is needed: most choices are content alone. */
  #tools: ToolCalls | null = null
  #reason: 'stop' | 'length' | 'content_filter' | null = null
  /** Whether its upstream has named it, if only by a role. */
  isNamed = false
  /** Whether it has a finish reason, if only one that nobody knows. */
  isFinished = false

  constructor({ target, logprobs, callId }: Expected, index: number) {
    this.#index = index
    this.#hasLogprobs = logprobs
    this.#think = target.upstream.options.think_tags ? new ThinkSplitter() : null
    this.#callId = callId
  }

  /** Whether a piece of content that is well-formed goes out exactly as it comes. */
  get passes(): boolean {
    return (this.#think === null || this.#think.isPast) && this.#content.isEmpty
  }

  /**
   * Takes a choice, and the delta or message that it holds. Returns whether that was a piece of content, which went out as
   * it came, and nothing else.
   */
  take(choice: JsonObject, said: unknown, out: AnswerEvent[]): boolean {
    this.isNamed = true
    const logprobs = this.#hasLogprobs ? toLogprobs(choice.logprobs) : null
    const content = logprobs ? null : toPlainText(said)
    const isPlain = content !== null && content !== '' && this.passes && content.isWellFormed()
    if (isPlain) out.push({ kind: 'text', choice: this.#index, text: content })
    else if (content !== '') this.#takeDelta(asObject(said) ?? {}, logprobs, out)
    return !this.#takeReason(choice.finish_reason) && isPlain
  }

  /** What was held back, once nothing more comes, and why it ended: calls make `tool_calls`, whatever an upstream says. */
  end(out: AnswerEvent[]): void {
    const rest = this.#think?.end() ?? { reasoning: '', content: '' }
    const cut = this.#reason === 'length' || this.#reason === 'content_filter' ? this.#reason : null
    this.#sayThought(this.#reasoning.take(rest.reasoning) + this.#reasoning.end(), [], out)
    this.#say('text', this.#content.take(rest.content) + this.#content.end(), out)
    this.#say('refusal', this.#refusal.end(), out)
    // Of an answer that was cut short, the last call may be half a call.
    this.#tools?.end(cut === null, out)
    out.push({ kind: 'finish', choice: this.#index, reason: cut ?? this.#tools?.reason ?? 'stop' })
  }

  /** Returns whether it says that the choice ended, in any word: some servers write '' or "null" into every chunk. */
  #takeReason(reason: unknown): boolean {
    if (typeof reason !== 'string' || reason === '' || reason === 'null') return false
    this.isFinished = true
    // The first one that means something counts.
    this.#reason ??= REASONS[reason.toLowerCase()] ?? null
    return true
  }

  #takeDelta(delta: JsonObject, logprobs: Logprobs | null, out: AnswerEvent[]): void {
    const from = out.length
    const calls: AnswerEvent[] = []
    if (delta.tool_calls || delta.function_call) {
      this.#tools ??= new ToolCalls(this.#index, (position) => this.#mint(position))
      if (delta.tool_calls) this.#tools.take(delta.tool_calls, calls)
      if (delta.function_call) this.#tools.takeLegacy(delta.function_call, calls)
    }
    this.#takeTexts(delta, calls.length > 0, out)
    const audio = asObject(delta.audio)
    if (audio) out.push({ kind: 'audio', choice: this.#index, audio: withoutNulls(audio) })
    const items = this.#annotations.take(delta.annotations)
    if (items.length > 0) out.push({ kind: 'annotations', choice: this.#index, items })
    for (const call of calls) out.push(call)
    if (logprobs) this.#attach(logprobs, out, from)
  }

  #mint(position: number): string {
    return `call_${Bun.hash(`${this.#callId}/${this.#index}/${position}`).toString(16).padStart(16, '0')}`
  }

  #takeTexts(delta: JsonObject, calls: boolean, out: AnswerEvent[]): void {
    const texts = toTexts(delta)
    if (this.#think) {
      const parts = [this.#think.take(texts.content), ...(calls ? [this.#think.end()] : [])]
      texts.reasoning += parts.map((part) => part.reasoning).join('')
      texts.content = parts.map((part) => part.content).join('')
    }
    this.#sayThought(this.#reasoning.take(texts.reasoning), this.#details.take(delta.reasoning_details), out)
    this.#say('text', this.#content.take(texts.content), out)
    this.#say('refusal', this.#refusal.take(texts.refusal), out)
  }

  #sayThought(text: string, details: object[], out: AnswerEvent[]): void {
    if (text === '' && details.length === 0) return
    const event = { kind: 'reasoning', choice: this.#index, text } as const
    out.push(details.length === 0 ? event : { ...event, details })
  }

  #say(kind: 'text' | 'refusal', text: string, out: AnswerEvent[]): void {
    if (text !== '') out.push({ kind, choice: this.#index, text })
  }

  /** Log probabilities go with the first words of their delta, or with no words at all. */
  #attach(logprobs: Logprobs, out: AnswerEvent[], from: number): void {
    const first = out[from]
    if (first && (first.kind === 'text' || first.kind === 'refusal' || first.kind === 'reasoning')) {
      first.logprobs = logprobs
    } else out.splice(from, 0, { kind: 'text', choice: this.#index, text: '', logprobs })
  }
}

const withoutNulls = (value: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(value).filter(([, each]) => each !== null))
