/**
 * Reads an answer of the Messages API as events, whole or streamed. Pings, and kinds of events, blocks and pieces that are not
 * known here, say nothing: new ones may come at any time (the API's versioning policy). Pure.
 */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent, FinishReason } from '../../../domain/events.ts'
import { asObject, asText, type JsonObject, parseJson } from '../../../domain/json.ts'
import { toMode } from '../../../domain/mode.ts'
import type { Decoder, Expected } from '../../backend.ts'
import type { SseEvent } from '../../sse.ts'
import { toSigner } from '../signer.ts'
import { type BlockReader, type Places, readRedacted, TextReader, ThoughtReader } from './block.ts'
import { Calls } from './calls.ts'
import { toFailure, toUpstreamError } from './error.ts'
import { UsageReader } from './usage.ts'

const REASONS: ReadonlyMap<unknown, FinishReason> = new Map([
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['refusal', 'content_filter'],
])

const TIERS: ReadonlyMap<unknown, 'default' | 'priority'> = new Map([
  ['standard', 'default'],
  ['priority', 'priority'],
])

export class AnswerDecoder implements Decoder {
  readonly #expected: Expected
  readonly #usage = new UsageReader()
  readonly #calls: Calls
  readonly #open = new Map<number, BlockReader>()
  readonly #places: Places
  /** The answer's id; null until it has begun. */
  #id: string | null = null
  #stop: string | null = null
  #explanation = ''
  #isOver = false

  constructor(expected: Expected) {
    this.#expected = expected
    this.#calls = new Calls(expected)
    this.#places = { signer: toSigner(expected.target), chars: 0, thoughts: 0, annotations: 0 }
  }

  /** See `Dialect.whole`. */
  whole(answer: JsonObject): AnswerEvent[] {
    if (answer.type === 'error' || answer.error) throw toUpstreamError(null, answer, this.#expected.target)
    if (!Array.isArray(answer.content))
      throw new UpstreamError('broken', 'answered 200 with something that is no message')
    const out: AnswerEvent[] = []
    this.#takeMode(answer.usage, out)
    for (const [index, value] of answer.content.entries()) {
      const block = asObject(value)
      if (block) this.#begin(index, block, out)
      this.#end(out)
    }
    this.#takeStop(answer)
    this.#finish(answer.usage, out)
    return out
  }

  /** Every event is read as one: no other part of them is as short. */
  take(): number {
    return 0
  }

  event({ name, data }: SseEvent, out: AnswerEvent[]): void {
    if (this.#isOver || data.trim() === '') return
    let event: JsonObject | null = null
    try {
      event = asObject(parseJson(data))
    } catch {}
    if (name === 'error' || event?.type === 'error') this.#fail(toFailure(null, data, this.#expected.target), out)
    else if (event === null) this.#fail(new UpstreamError('broken', 'sent a stream event that is not JSON'), out)
    else this.#takeEvent(asText(event.type) || (name ?? ''), event, out)
  }

  end(out: AnswerEvent[]): void {
    if (!this.#isOver) this.#fail(new UpstreamError('broken', 'ended its stream in the middle of the answer'), out)
  }

  #takeEvent(type: string, event: JsonObject, out: AnswerEvent[]): void {
    const index = typeof event.index === 'number' ? event.index : -1
    switch (type) {
      case 'message_start':
        this.#start(asObject(event.message) ?? {}, out)
        break
      case 'content_block_start':
        this.#begin(index, asObject(event.content_block) ?? {}, out)
        break
      case 'content_block_delta':
        this.#open.get(index)?.take(asObject(event.delta) ?? {}, out)
        break
      case 'content_block_stop':
        this.#endOf(index, out)
        break
      case 'message_delta':
        this.#end(out)
        this.#takeStop(asObject(event.delta) ?? {})
        this.#takeUsage(event.usage, out)
        break
      case 'message_stop':
        this.#end(out)
        this.#finish(null, out)
    }
  }

  /** The same beginning may be told twice; another one is of another attempt at the answer, and nothing fits any more. */
  #start(message: JsonObject, out: AnswerEvent[]): void {
    const id = asText(message.id)
    if (this.#id !== null) {
      if (id !== this.#id) this.#fail(new UpstreamError('broken', 'began another answer in the middle of one'), out)
      return
    }
    this.#id = id
    this.#takeMode(message.usage, out)
    this.#takeUsage(message.usage, out)
  }

  /** Blocks come one after the other: one that begins ends those before it. */
  #begin(index: number, block: JsonObject, out: AnswerEvent[]): void {
    this.#end(out)
    const reader = this.#toReader(block, out)
    if (reader) this.#open.set(index, reader)
  }

  /** Tools that run at the provider are none of the client's: what they found is in the text that follows. */
  #toReader(block: JsonObject, out: AnswerEvent[]): BlockReader | null {
    switch (block.type) {
      case 'text':
        return new TextReader(block, this.#places, out)
      case 'thinking':
        return new ThoughtReader(block, this.#places, out)
      case 'tool_use':
        return this.#calls.begin(block, out)
      case 'redacted_thinking':
        readRedacted(block, this.#places, out)
        return null
    }
    out.push({ kind: 'working' })
    return null
  }

  #endOf(index: number, out: AnswerEvent[]): void {
    this.#open.get(index)?.end(out)
    this.#open.delete(index)
  }

  #end(out: AnswerEvent[]): void {
    for (const index of [...this.#open.keys()]) this.#endOf(index, out)
  }

  #takeStop(said: JsonObject): void {
    this.#stop = asText(said.stop_reason) || this.#stop
    this.#explanation = asText(asObject(said.stop_details)?.explanation) || this.#explanation
  }

  #takeUsage(value: unknown, out: AnswerEvent[]): void {
    const used = this.#usage.take(value)
    if (used?.others.length === 0) out.push({ kind: 'usage', usage: used.usage })
    else if (used) out.push({ kind: 'usage', ...used })
  }

  /** How the call is served, which may have a price of its own. Later reports do not say it again. */
  #takeMode(value: unknown, out: AnswerEvent[]): void {
    const usage = asObject(value) ?? {}
    const tier = TIERS.get(usage.service_tier)
    if (tier) out.push({ kind: 'origin', origin: { service_tier: tier } })
    const mode = toMode(usage.service_tier, usage.speed, usage.inference_geo)
    if (mode !== null) out.push({ kind: 'mode', mode })
  }

  #finish(usage: unknown, out: AnswerEvent[]): void {
    this.#isOver = true
    const cut = REASONS.get(this.#stop) ?? null
    // A refusal may have no words beside its reason.
    const isSilent = this.#places.chars === 0 && this.#calls.reason === null
    if (cut === 'content_filter' && isSilent && this.#explanation !== '')
      out.push({ kind: 'refusal', choice: 0, text: this.#explanation.toWellFormed() })
    out.push({ kind: 'finish', choice: 0, reason: cut ?? this.#calls.reason ?? 'stop' })
    this.#takeUsage(usage, out)
    out.push({ kind: 'done' })
  }

  #fail(error: UpstreamError, out: AnswerEvent[]): void {
    this.#isOver = true
    out.push({ kind: 'failure', error })
  }
}
