/**
 * Reads deltas that are more than a piece of content, by whatever names and in whatever shapes their parts come, in the
 * order thought, text, refusal, calls; what has to wait for more is held back. A whole message is one delta that says
 * everything. Pure.
 */
import type { AnswerEvent, Logprobs } from '../../../domain/events.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { Expected } from '../../backend.ts'
import { toSigner } from '../signer.ts'
import { SurrogateBuffer } from '../surrogate-buffer.ts'
import { signed } from './conversation.ts'
import { ItemNumbers } from './item-numbers.ts'
import { toDetails } from './signatures.ts'
import { ThinkSplitter } from './think.ts'
import { ToolCalls } from './tool-calls.ts'

/** Reads the deltas of one choice. */
export class DeltaDecoder {
  readonly #index: number
  readonly #callId: string
  readonly #signer: string
  readonly #think: ThinkSplitter | null
  readonly #content = new SurrogateBuffer()
  readonly #reasoning = new SurrogateBuffer()
  readonly #refusal = new SurrogateBuffer()
  readonly #details = new ItemNumbers(true)
  readonly #annotations = new ItemNumbers(false)
  readonly #images = new ItemNumbers(false)
  #tools: ToolCalls | null = null

  constructor({ target, callId }: Expected, index: number) {
    this.#index = index
    this.#callId = callId
    this.#signer = toSigner(target)
    this.#think = target.upstream.options.think_tags ? new ThinkSplitter() : null
  }

  /** Whether a piece of content that is well-formed goes out exactly as it comes. */
  get passes(): boolean {
    return (this.#think === null || this.#think.isPast) && this.#content.isEmpty
  }

  /** @param logprobs of the words in it. */
  take(delta: JsonObject, logprobs: Logprobs | null, out: AnswerEvent[]): void {
    const from = out.length
    const calls: AnswerEvent[] = []
    if (delta.tool_calls || delta.function_call) {
      this.#tools ??= this.#toTools()
      if (delta.tool_calls) this.#tools.take(delta.tool_calls, calls)
      if (delta.function_call) this.#tools.takeLegacy(delta.function_call, calls)
    }
    this.#takeTexts(delta, calls.length > 0, out)
    const audio = asObject(delta.audio)
    if (audio) out.push({ kind: 'audio', choice: this.#index, audio: withoutNulls(audio) })
    const images = this.#images.take(delta.images)
    if (images.length > 0) out.push({ kind: 'images', choice: this.#index, items: images })
    const items = this.#annotations.take(delta.annotations)
    if (items.length > 0) out.push({ kind: 'annotations', choice: this.#index, items })
    for (const call of calls) out.push(call)
    if (logprobs) this.#attach(logprobs, out, from)
  }

  /**
   * Says what was held back, once nothing more comes, and returns the finish reason that calls stand for; null without any.
   * @param isComplete false where the answer was cut short: its last call may be half a call.
   */
  end(isComplete: boolean, out: AnswerEvent[]): 'tool_calls' | 'function_call' | null {
    const rest = this.#think?.end() ?? { reasoning: '', content: '' }
    this.#sayThought(this.#reasoning.take(rest.reasoning) + this.#reasoning.end(), [], out)
    this.#say('text', this.#content.take(rest.content) + this.#content.end(), out)
    this.#say('refusal', this.#refusal.end(), out)
    this.#tools?.end(isComplete, out)
    return this.#tools?.reason ?? null
  }

  #toTools(): ToolCalls {
    const sign = (extra: JsonObject, id: string) =>
      toDetails(extra, id, this.#signer).map((detail) => this.#details.add(detail))
    return new ToolCalls(this.#index, (position) => this.#mint(position), sign)
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

  #sayThought(text: string, details: readonly object[], out: AnswerEvent[]): void {
    if (text === '' && details.length === 0) return
    const event = { kind: 'reasoning', choice: this.#index, text } as const
    if (details.length === 0) out.push(event)
    else out.push({ ...event, details: details.map((item) => signed(item, this.#signer)) })
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

interface Texts {
  content: string
  reasoning: string
  refusal: string
}

function toTexts(said: JsonObject): Texts {
  const { content } = said
  const texts: Texts = {
    content: asText(content),
    reasoning: asText(said.reasoning_content) || asText(said.reasoning) || toDetailsText(said.reasoning_details),
    refusal: asText(said.refusal),
  }
  if (typeof content === 'object') for (const part of Array.isArray(content) ? content : [content]) addPart(texts, part)
  return texts
}

function addPart(texts: Texts, value: unknown): void {
  const part = asObject(value)
  if (!part) texts.content += asText(value)
  else if (part.type === 'thinking' || part.type === 'reasoning') texts.reasoning += toThought(part)
  else if (part.type === 'refusal') texts.refusal += asText(part.refusal)
  else texts.content += asText(part.text)
}

/** A thought is a text, or a list of text parts of its own. */
function toThought(part: JsonObject): string {
  const thought = part.thinking ?? part.reasoning ?? part.text
  if (typeof thought === 'string') return thought
  return asList(thought)
    .map((each) => asText(each) || asText(asObject(each)?.text))
    .join('')
}

/** The text of `reasoning_details`, for clients that read only the strings. */
function toDetailsText(details: unknown): string {
  return asList(details)
    .map((each) => asText(asObject(each)?.text) || asText(asObject(each)?.summary))
    .join('')
}
