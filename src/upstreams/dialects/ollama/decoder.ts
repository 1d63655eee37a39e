/** Decodes Ollama's chats, embeddings (`POST /api/embed`) and errors. */

import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent, FinishReason } from '../../../domain/events.ts'
import { asList, asObject, asText, type JsonObject, tryJson } from '../../../domain/json.ts'
import type { Target } from '../../../domain/snapshot.ts'
import type { EmbeddingInput, EmbeddingsRequest } from '../../../domain/task.ts'
import { NO_USAGE } from '../../../domain/usage.ts'
import type { Expected, WireRequest } from '../dialect.ts'
import { type ErrorReader, toStatusError, unsupportedValue } from '../errors.ts'
import { JsonDecoder, SurrogateBuffer } from '../json-decoder.ts'
import { asCount, toSpeed, toVectors } from '../readings.ts'
import { CallBook } from '../tool-calls.ts'

export class AnswerDecoder extends JsonDecoder {
  protected readonly errors = ollamaErrors
  readonly #calls: CallBook
  readonly #said = { text: new SurrogateBuffer(), reasoning: new SurrogateBuffer() }

  constructor(expected: Expected) {
    super(expected)
    this.#calls = new CallBook(expected.body, expected.callId)
  }

  protected override takeWhole(answer: JsonObject, _text: string, out: AnswerEvent[]): void {
    if (answer.done !== true || !asObject(answer.message))
      throw new UpstreamError('broken', 'returned 200 with an invalid response')
    this.#take(answer, out)
  }

  protected override takeJson(line: JsonObject, _name: string | null, _data: string, out: AnswerEvent[]): void {
    this.#take(line, out)
  }

  protected override takeText(_data: string, out: AnswerEvent[]): void {
    this.fail(new UpstreamError('broken', 'sent a line that is not JSON'), out)
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

  #call(call: JsonObject, out: AnswerEvent[]): void {
    const { name, arguments: args } = asObject(call.function) ?? {}
    const begun = asText(name) === '' ? null : this.#calls.begin(asText(name), asText(call.id), out)
    if (begun === null) return
    const text = typeof args === 'string' ? args : JSON.stringify(asObject(args) ?? {})
    out.push({ kind: 'arguments', choice: 0, index: begun.index, text: text.toWellFormed() })
  }

  #finish(answer: JsonObject, out: AnswerEvent[]): void {
    this.isOver = true
    for (const kind of ['reasoning', 'text'] as const) {
      const text = this.#said[kind].end()
      if (text !== '') out.push({ kind, choice: 0, text })
    }
    out.push({ kind: 'finish', choice: 0, reason: this.#toReason(asText(answer.done_reason)) })
    const completion = asCount(answer.eval_count)
    // Older versions omit it if the whole prompt was cached.
    const prompt = asCount(answer.prompt_eval_count)
    if (completion !== null && prompt !== null) {
      // Nanoseconds.
      const speed = toSpeed((completion / Number(answer.eval_duration)) * 1e9)
      const usage = { ...NO_USAGE, prompt, completion }
      out.push({ kind: 'usage', usage, ...(speed === undefined ? {} : { tokensPerSecond: speed }) })
    }
    out.push({ kind: 'done' })
  }

  #toReason(word: string): FinishReason {
    return word === 'length' ? 'length' : (this.#calls.reason ?? 'stop')
  }
}

export function toEmbeddingRequest({ inputs, dimensions }: EmbeddingsRequest, { upstreamModel }: Target): WireRequest {
  const asked = {
    model: upstreamModel,
    input: inputs.map(toText),
    truncate: false,
    dimensions: dimensions ?? undefined,
  }
  return { path: '/api/embed', body: JSON.stringify(asked) }
}

function toText(input: EmbeddingInput): string {
  if (typeof input === 'string') return input
  throw unsupportedValue('input', 'inputs must be text, not token IDs.')
}

export function readEmbeddings(json: unknown, embedding: EmbeddingsRequest, target: Target): AnswerEvent[] {
  const answer = asObject(json)
  const error = answer && ollamaErrors.find(answer)
  if (error) throw ollamaErrors.read(null, error, target)
  if (!Array.isArray(answer?.embeddings)) throw new UpstreamError('broken', 'returned 200 with invalid embeddings')
  const vectors = toVectors(asList(answer.embeddings), embedding)
  const prompt = asCount(answer.prompt_eval_count)
  const usage: AnswerEvent[] = prompt === null ? [] : [{ kind: 'usage', usage: { ...NO_USAGE, prompt } }]
  return [{ kind: 'embeddings', vectors }, ...usage, { kind: 'done' }]
}

export const ollamaErrors: ErrorReader = {
  find: (answer) => (toSentence(answer) === '' ? null : answer),
  read(status, error, target, retryAfterMs) {
    const message = toSentence(error) || asText(error.message)
    const engineWords = toInner(message)
    return toStatusError({ status: status ?? 500, stated: status, message, engineWords, retryAfterMs }, target)
  },
}

function toSentence(answer: unknown): string {
  const error = asObject(answer)?.error
  return asText(error) || asText(asObject(error)?.message)
}

/** The engine's message, if Ollama forwards its whole response. */
const toInner = (sentence: string): string => toSentence(tryJson(sentence)) || sentence
