/**
 * Reads one choice of an answer, streamed or whole, whatever its upstream makes of the format, and says it again as
 * events: in the order thought, text, refusal, calls. A whole message is one delta that says everything. Pure.
 */
import type { AnswerEvent, FinishReason, Logprobs } from '../../../domain/events.ts'
import { asObject, type JsonObject } from '../../../domain/json.ts'
import type { Expected } from '../../backend.ts'
import { isFinish, isTruncated, toFinishReason, toKnownReason } from './finish.ts'
import { FunctionCall } from './function-call.ts'
import { ItemNumbers } from './items.ts'
import { SurrogateBuffer } from './surrogate-buffer.ts'
import { toTexts } from './texts.ts'
import { createThinkSplitter } from './think.ts'
import { ToolCalls } from './tool-calls.ts'

export class ChoiceDecoder {
  readonly #index: number
  readonly #callId: string
  readonly #think: ReturnType<typeof createThinkSplitter> | null
  readonly #content = new SurrogateBuffer()
  // Made where they are needed: most choices are content alone, and there may be a thousand streams.
  #reasoning: SurrogateBuffer | null = null
  #refusal: SurrogateBuffer | null = null
  #tools: ToolCalls | null = null
  #legacy: FunctionCall | null = null
  #details: ItemNumbers | null = null
  #annotations: ItemNumbers | null = null
  #reason: FinishReason | null = null
  /** Whether its upstream has named it, if only by a role. */
  isNamed = false
  /** Whether it has a finish reason, if only one that nobody knows. */
  isFinished = false

  constructor({ target, callId }: Expected, index: number) {
    this.#index = index
    this.#callId = callId
    this.#think = target.upstream.options.think_tags ? createThinkSplitter() : null
  }

  /** Whether a piece of content goes out exactly as it comes. */
  passes(content: string): boolean {
    return this.passesAll && content !== '' && content.isWellFormed()
  }

  /** The same for any piece that is well-formed. */
  get passesAll(): boolean {
    return (this.#think === null || this.#think.past()) && this.#content.isEmpty
  }

  /** Takes a delta or a message, with the log probabilities beside it. */
  take(value: unknown, logprobs: Logprobs | null, out: AnswerEvent[]): void {
    const from = out.length
    const delta = asObject(value)
    if (delta) this.#takeDelta(delta, out)
    if (logprobs) this.#attach(logprobs, out, from)
  }

  /** Notes an upstream's finish reason. The first one that means something counts. */
  finish(reason: unknown): void {
    if (!isFinish(reason)) return
    this.isFinished = true
    this.#reason ??= toKnownReason(reason)
  }

  /** What was held back, once nothing more comes, and why it ended, by what was said. */
  end(out: AnswerEvent[]): void {
    const rest = this.#think?.end() ?? { reasoning: '', content: '' }
    const isComplete = !isTruncated(this.#reason)
    this.#sayThought(this.#joinReasoning(rest.reasoning) + (this.#reasoning?.end() ?? ''), [], out)
    this.#say('text', this.#content.take(rest.content) + this.#content.end(), out)
    this.#say('refusal', this.#refusal?.end() ?? '', out)
    this.#tools?.end(isComplete, out)
    this.#legacy?.end(isComplete, out)
    const called = this.#tools?.any ? 'tools' : this.#legacy?.any ? 'function' : 'nothing'
    out.push({ kind: 'finish', choice: this.#index, reason: toFinishReason(this.#reason, called) })
  }

  #takeDelta(delta: JsonObject, out: AnswerEvent[]): void {
    const calls: AnswerEvent[] = []
    if (delta.tool_calls) this.#toolCalls().take(delta.tool_calls, calls)
    if (delta.function_call) {
      this.#legacy ??= new FunctionCall(this.#index)
      this.#legacy.take(delta.function_call, calls)
    }
    this.#takeTexts(delta, calls.length > 0, out)
    const audio = asObject(delta.audio)
    if (audio) out.push({ kind: 'audio', choice: this.#index, audio: withoutNulls(audio) })
    if (delta.annotations) {
      this.#annotations ??= new ItemNumbers(false)
      const items = this.#annotations.take(delta.annotations)
      if (items.length > 0) out.push({ kind: 'annotations', choice: this.#index, items })
    }
    for (const call of calls) out.push(call)
  }

  #takeTexts(delta: JsonObject, calls: boolean, out: AnswerEvent[]): void {
    const texts = toTexts(delta)
    if (this.#think) {
      const parts = [this.#think.take(texts.content), ...(calls ? [this.#think.end()] : [])]
      texts.reasoning += parts.map((part) => part.reasoning).join('')
      texts.content = parts.map((part) => part.content).join('')
    }
    if (delta.reasoning_details) this.#details ??= new ItemNumbers(true)
    const details = this.#details?.take(delta.reasoning_details) ?? []
    this.#sayThought(this.#joinReasoning(texts.reasoning), details, out)
    this.#say('text', this.#content.take(texts.content), out)
    if (texts.refusal !== '') this.#refusal ??= new SurrogateBuffer()
    this.#say('refusal', this.#refusal?.take(texts.refusal) ?? '', out)
  }

  #sayThought(text: string, details: object[], out: AnswerEvent[]): void {
    if (text === '' && details.length === 0) return
    const event = { kind: 'reasoning', choice: this.#index, text } as const
    out.push(details.length === 0 ? event : { ...event, details })
  }

  #say(kind: 'text' | 'refusal', text: string, out: AnswerEvent[]): void {
    if (text !== '') out.push({ kind, choice: this.#index, text })
  }

  #joinReasoning(text: string): string {
    if (text !== '') this.#reasoning ??= new SurrogateBuffer()
    return this.#reasoning?.take(text) ?? ''
  }

  #toolCalls(): ToolCalls {
    const mint = (position: number) => `call_${toHex(Bun.hash(`${this.#callId}/${this.#index}/${position}`))}`
    this.#tools ??= new ToolCalls(this.#index, mint)
    return this.#tools
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

const toHex = (hash: number | bigint) => hash.toString(16).padStart(16, '0')
