/**
 * Reads an answer of Ollama's as events, whole or streamed: each line of a stream is a whole answer with what is new, the last one has
 * `done` and what was used. Pure.
 */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent, FinishReason } from '../../../domain/events.ts'
import { asList, asObject, asText, type JsonObject, parseJson } from '../../../domain/json.ts'
import { NO_USAGE } from '../../../domain/usage.ts'
import type { Decoder, Expected } from '../../backend.ts'
import type { SseEvent } from '../../sse.ts'
import { asCount, toSpeed } from '../count.ts'
import { SurrogateBuffer } from '../surrogate-buffer.ts'
import { toSentence, toUpstreamError } from './error.ts'

/** The index under which the events of a legacy call stand. */
const LEGACY_INDEX = -1

export class AnswerDecoder implements Decoder {
  readonly #expected: Expected
  readonly #isLegacy: boolean
  readonly #ids = new Set<string>()
  readonly #said = { text: new SurrogateBuffer(), reasoning: new SurrogateBuffer() }
  #calls = 0
  #isOver = false

  constructor(expected: Expected) {
    this.#expected = expected
    this.#isLegacy = !expected.body.tools && Boolean(expected.body.functions)
  }

  /** See `Dialect.whole`. */
  whole(json: unknown): AnswerEvent[] {
    const answer = asObject(json) ?? {}
    const sentence = toSentence(answer)
    if (sentence !== '') throw toUpstreamError(null, sentence, this.#expected.target)
    if (answer.done !== true || !asObject(answer.message))
      throw new UpstreamError('broken', 'answered 200 with something that is no answer')
    const out: AnswerEvent[] = []
    this.#take(answer, out)
    return out
  }

  take(): number {
    return 0
  }

  event({ data }: SseEvent, out: AnswerEvent[]): void {
    if (this.#isOver || data.trim() === '') return
    let line: JsonObject | null = null
    try {
      line = asObject(parseJson(data))
    } catch {}
    if (line === null) {
      this.#fail(new UpstreamError('broken', 'sent a line that is not JSON'), out)
      return
    }
    const sentence = toSentence(line)
    if (sentence !== '') this.#fail(toUpstreamError(null, sentence, this.#expected.target), out)
    else this.#take(line, out)
  }

  end(out: AnswerEvent[]): void {
    if (!this.#isOver) this.#fail(new UpstreamError('broken', 'ended its stream in the middle of the answer'), out)
  }

  #take(answer: JsonObject, out: AnswerEvent[]): void {
    const message = asObject(answer.message) ?? {}
    this.#say('reasoning', asText(message.thinking), out)
    this.#say('text', asText(message.content), out)
    for (const each of asList(message.tool_calls)) this.#call(asObject(each) ?? {}, out)
    if (answer.done === true) this.#finish(answer, out)
  }

  #say(kind: 'text' | 'reasoning', piece: string, out: AnswerEvent[]): void {
    const text = this.#said[kind].take(piece)
    if (text !== '') out.push({ kind, choice: 0, text })
  }

  /** Comes whole. */
  #call(call: JsonObject, out: AnswerEvent[]): void {
    const { name, arguments: args } = asObject(call.function) ?? {}
    const isOne = this.#isLegacy || this.#expected.body.parallel_tool_calls === false
    if (asText(name) === '' || (isOne && this.#calls > 0)) return
    const number = this.#calls++
    const index = this.#isLegacy ? LEGACY_INDEX : number
    const id = this.#isLegacy ? '' : this.#toId(asText(call.id), index)
    const type = this.#isLegacy ? 'function_call' : 'function'
    out.push({ kind: 'tool', choice: 0, index, id, name: asText(name).toWellFormed(), type })
    const text = typeof args === 'string' ? args : JSON.stringify(asObject(args) ?? {})
    out.push({ kind: 'arguments', choice: 0, index, text: text.toWellFormed() })
  }

  /** Its own, or one of ours where it has none or has said it before. */
  #toId(given: string, index: number): string {
    const isNew = given !== '' && given.isWellFormed() && !this.#ids.has(given)
    const hash = () => Bun.hash(`${this.#expected.callId}/${index}`).toString(16).padStart(16, '0')
    const id = isNew ? given : `call_${hash()}`
    this.#ids.add(id)
    return id
  }

  #finish(answer: JsonObject, out: AnswerEvent[]): void {
    this.#isOver = true
    for (const kind of ['reasoning', 'text'] as const) {
      const text = this.#said[kind].end()
      if (text !== '') out.push({ kind, choice: 0, text })
    }
    out.push({ kind: 'finish', choice: 0, reason: this.#toReason(asText(answer.done_reason)) })
    const completion = asCount(answer.eval_count)
    // A prompt that was all in its cache is not counted by older versions.
    const prompt = asCount(answer.prompt_eval_count)
    if (completion !== null && prompt !== null) {
      // It says nanoseconds.
      const speed = toSpeed((completion / Number(answer.eval_duration)) * 1e9)
      const usage = { ...NO_USAGE, prompt, completion }
      out.push({ kind: 'usage', usage, ...(speed === undefined ? {} : { tokensPerSecond: speed }) })
    }
    out.push({ kind: 'done' })
  }

  #toReason(word: string): FinishReason {
    if (word === 'length') return 'length'
    if (this.#calls > 0) return this.#isLegacy ? 'function_call' : 'tool_calls'
    return 'stop'
  }

  #fail(error: UpstreamError, out: AnswerEvent[]): void {
    this.#isOver = true
    out.push({ kind: 'failure', error })
  }
}
