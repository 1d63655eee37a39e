/** Shared by all decoders: reads stream events as JSON up to the end or a failure, and text without split characters. */
import { UpstreamError } from '../../domain/error.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import { asObject, type JsonObject, tryJson } from '../../domain/json.ts'
import type { SseEvent } from '../framing.ts'
import type { Decoder, Expected } from './dialect.ts'
import { type ErrorReader, readErrorBody } from './errors.ts'

export abstract class JsonDecoder implements Decoder {
  protected readonly expected: Expected
  protected abstract readonly errors: ErrorReader
  isOver = false

  constructor(expected: Expected) {
    this.expected = expected
  }

  /** Default: no fast path. */
  take(_text: string, _out: AnswerEvent[]): number {
    return 0
  }

  whole(json: unknown, text = JSON.stringify(json)): AnswerEvent[] {
    const error = this.errors.find(asObject(Array.isArray(json) ? json[0] : json) ?? {})
    if (error) throw this.toError(error)
    const out: AnswerEvent[] = []
    this.takeWhole(asObject(json) ?? {}, text, out)
    return out
  }

  event({ name, data }: SseEvent, out: AnswerEvent[]): void {
    if (this.isOver) return
    if (name === 'error') {
      this.fail(readErrorBody(this.errors, null, data, this.expected.target), out)
      return
    }
    if (data.trim() === '') return
    const json = tryParse(data)
    const error = json && this.errors.find(json)
    if (json === null) this.takeText(data, out)
    else if (error) this.fail(this.toError(error), out)
    else this.takeJson(json, name, data, out)
  }

  end(out: AnswerEvent[]): void {
    if (!this.isOver) this.fail(new UpstreamError('broken', 'ended its stream before the response was complete'), out)
  }

  /** Reads a response without an error, up to `done`. Throws an UpstreamError if it is invalid. */
  protected abstract takeWhole(answer: JsonObject, text: string, out: AnswerEvent[]): void

  protected abstract takeJson(json: JsonObject, name: string | null, data: string, out: AnswerEvent[]): void

  protected toError(error: JsonObject): UpstreamError {
    return this.errors.read(null, error, this.expected.target)
  }

  protected takeText(_data: string, out: AnswerEvent[]): void {
    this.fail(new UpstreamError('broken', 'sent a stream event that is not JSON'), out)
  }

  protected fail(error: UpstreamError, out: AnswerEvent[]): void {
    this.isOver = true
    out.push({ kind: 'failure', error })
  }
}

/** Other texts, such as each stream's `[DONE]`, aren't parsed: failing takes 2 us. */
const OBJECT = /^\s*\[?\s*\{/

/** The object in a text, or the first in an array, which some servers use to frame a stream. Null for anything else. */
export function tryParse(text: string): JsonObject | null {
  if (!OBJECT.test(text)) return null
  const json = tryJson(text)
  return asObject(Array.isArray(json) ? json[0] : json)
}

/**
 * Splits text only between characters: servers that cut by UTF-16 units send the halves of an emoji in two chunks. Lone halves become
 * U+FFFD.
 */
export class SurrogateBuffer {
  #held = ''

  take(piece: string): string {
    if (piece === '') return ''
    const text = this.#held + piece
    this.#held = (text.charCodeAt(text.length - 1) & 0xfc00) === 0xd800 ? text.slice(-1) : ''
    return (this.#held === '' ? text : text.slice(0, -1)).toWellFormed()
  }

  end(): string {
    const rest = this.#held.toWellFormed()
    this.#held = ''
    return rest
  }

  get isEmpty(): boolean {
    return this.#held === ''
  }
}
