/**
 * What the decoders of all dialects share: events of a stream read as JSON, one by one, up to the one that ends the answer or tells of a
 * failure; and text without halves of characters. Pure.
 */
import { UpstreamError } from '../../domain/error.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import { asObject, type JsonObject, tryJson } from '../../domain/json.ts'
import type { SseEvent } from '../framing.ts'
import type { Decoder, Expected } from './dialect.ts'
import { type ErrorReader, readErrorBody } from './errors.ts'

export abstract class JsonDecoder implements Decoder {
  protected readonly expected: Expected
  protected abstract readonly errors: ErrorReader
  /** Whether the answer has ended or failed: nothing more is read then. */
  isOver = false

  constructor(expected: Expected) {
    this.expected = expected
  }

  /** Where no part of a stream is of so plain a make, every event is read as one. */
  take(_text: string, _out: AnswerEvent[]): number {
    return 0
  }

  /** See `WireFormat.whole`. */
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
    if (!this.isOver) this.fail(new UpstreamError('broken', 'ended its stream in the middle of the answer'), out)
  }

  /** Reads an answer that tells of no error, up to `done`. Throws an UpstreamError where it is none. */
  protected abstract takeWhole(answer: JsonObject, text: string, out: AnswerEvent[]): void

  /** Takes an event that tells of no error. */
  protected abstract takeJson(json: JsonObject, name: string | null, data: string, out: AnswerEvent[]): void

  protected toError(error: JsonObject): UpstreamError {
    return this.errors.read(null, error, this.expected.target)
  }

  /** Takes what is no JSON. */
  protected takeText(_data: string, out: AnswerEvent[]): void {
    this.fail(new UpstreamError('broken', 'sent a stream event that is not JSON'), out)
  }

  protected fail(error: UpstreamError, out: AnswerEvent[]): void {
    this.isOver = true
    out.push({ kind: 'failure', error })
  }
}

/** How such a text begins. Anything else, such as the `[DONE]` of each stream, is not parsed: to fail at that takes 2 us. */
const OBJECT = /^\s*\[?\s*\{/

/** The object that a text is, or that a list begins with: some frame a stream as one. Null for anything else. */
export function tryParse(text: string): JsonObject | null {
  if (!OBJECT.test(text)) return null
  const json = tryJson(text)
  return asObject(Array.isArray(json) ? json[0] : json)
}

/**
 * Passes on a text that arrives in pieces, so that no piece ends within a character: servers that cut by UTF-16 units send
 * the two halves of an emoji in two chunks, and a client that decodes each by itself has neither. What is no character
 * at all becomes U+FFFD.
 */
export class SurrogateBuffer {
  #held = ''

  take(piece: string): string {
    if (piece === '') return ''
    const text = this.#held + piece
    // The first half of a character above U+FFFF.
    this.#held = (text.charCodeAt(text.length - 1) & 0xfc00) === 0xd800 ? text.slice(-1) : ''
    return (this.#held === '' ? text : text.slice(0, -1)).toWellFormed()
  }

  /** What is left once nothing more comes. */
  end(): string {
    const rest = this.#held.toWellFormed()
    this.#held = ''
    return rest
  }

  /** Whether nothing is held back. */
  get isEmpty(): boolean {
    return this.#held === ''
  }
}
