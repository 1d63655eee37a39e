/**
 * From the bytes of a streamed answer to its events: text out of pieces of UTF-8, events out of text, framed as server-sent events or
 * as lines of JSON, and how much JSON an upstream may send, for what is parsed on the event loop holds up everybody else. Pure.
 */
import { tooLong, UpstreamError } from '../domain/error.ts'
import { type JsonLimits, JsonScan } from '../domain/json-text.ts'

export interface SseEvent {
  /** The `event:` field, or null. */
  name: string | null
  data: string
}

/**
 * Takes LF, CRLF or CR line ends, skips comments, joins several `data` lines and drops events without data. One field of
 * some servers' own, `error:`, is read as an event of that name, for a cut stream must not look whole.
 */
export class SseReader {
  /** Whether an event has grown past the limit: the rest of the stream is of no use then. */
  isTooLarge = false
  /** A line that has not ended. Only what is new is searched, so that a long one is not read again for each piece of it. */
  #line = ''
  #data: string | null = null
  #name: string | null = null
  /** What does not count where the next piece begins with it: a byte order mark, or the second half of a CRLF. */
  #ignored = '\ufeff'

  constructor(readonly maxEventChars: number) {}

  /** Takes the next piece of text and returns the events that it completes, up to one that is too large. */
  feed(text: string): SseEvent[] {
    const out: SseEvent[] = []
    if (text === '') return out
    const piece = text[0] === this.#ignored ? text.slice(1) : text
    this.#ignored = text.endsWith('\r') ? '\n' : ''
    const lines = piece.includes('\r') ? piece.split(/\r\n?|\n/) : piece.split('\n')
    const unended = lines.pop() ?? ''
    for (const line of lines) {
      this.#take(this.#line + line, out)
      this.#line = ''
      if (this.isTooLarge) return out
    }
    this.#line += unended
    if (this.#line.length > this.maxEventChars) this.isTooLarge = true
    return out
  }

  /** Whether what comes next begins an event. */
  isBetweenEvents(): boolean {
    return this.#line === '' && this.#data === null && this.#name === null
  }

  /** Returns an event that the end of the stream completes: some servers leave out the last blank line. */
  end(): SseEvent[] {
    return this.feed('\n\n')
  }

  #take(line: string, out: SseEvent[]): void {
    if (line === '') {
      if (this.#data !== null) out.push({ name: this.#name, data: this.#data })
      this.#data = null
      this.#name = null
      return
    }
    const colon = line.indexOf(':')
    if (colon === 0) return
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (field === 'data') this.#data = this.#data === null ? value : `${this.#data}\n${value}`
    else if (field === 'event') this.#name = value
    else if (field === 'error') {
      this.#name = field
      this.#data = value
    }
    if (this.#data !== null && this.#data.length > this.maxEventChars) this.isTooLarge = true
  }
}

export class LineReader {
  /** Whether a line has grown past the limit: the rest of the stream is of no use then. */
  isTooLarge = false
  #line = ''

  constructor(readonly maxEventChars: number) {}

  /** Takes the next piece of text and returns the lines that it completes, up to one that is too large. */
  feed(text: string): SseEvent[] {
    const lines = text.split('\n')
    const unended = lines.pop() ?? ''
    const out: SseEvent[] = []
    for (const line of lines) {
      const data = this.#line + line
      this.#line = ''
      if (data.length > this.maxEventChars) {
        this.isTooLarge = true
        return out
      }
      if (data.trim() !== '') out.push({ name: null, data })
    }
    this.#line += unended
    if (this.#line.length > this.maxEventChars) this.isTooLarge = true
    return out
  }

  /** Whether what comes next begins a line. */
  isBetweenEvents(): boolean {
    return this.#line === ''
  }

  /** Returns a line that the end of the stream completes. */
  end(): SseEvent[] {
    return this.feed('\n')
  }
}

/** Bytes below it are characters of their own, and end any other one. */
const FIRST_OF_SEVERAL = 0x80

/** Whether no character goes on behind that place, wherever it began. */
export const endsCharacter = (bytes: Uint8Array, to: number): boolean => (bytes[to - 1] ?? 0) < FIRST_OF_SEVERAL

export class Utf8Reader {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  /** Whether certainly no character has begun that did not end. */
  isBetween = true

  /** Reads what stands in `bytes` from one place up to another. */
  read(bytes: Uint8Array, from: number, to: number): string {
    if (to === from) return ''
    const wasBetween = this.isBetween
    this.isBetween = endsCharacter(bytes, to)
    // Nearly always. The decoder, and the view that it needs, take three times as long.
    if (wasBetween && this.isBetween && bytes instanceof Buffer) return bytes.toString('utf8', from, to)
    return this.#decoder.decode(bytes.subarray(from, to), { stream: true })
  }

  /** Reads what was left of a character that did not end. */
  end(): string {
    return this.#decoder.decode()
  }
}

/** As deep as a request may be. */
const MAX_DEPTH = 256

/** Of a whole answer: 9,000 tokens with 20 likely ones each. One of embeddings has as many values as 64 MiB hold. */
export const toWholeLimits = (isEmbedding: boolean): Pick<JsonLimits, 'depth' | 'values'> => ({
  depth: MAX_DEPTH,
  values: isEmbedding ? Number.POSITIVE_INFINITY : 1_000_000,
})

/** Of one event, which is parsed in one go. */
const EVENT_LIMITS: JsonLimits = { depth: MAX_DEPTH, values: 500_000, escapes: 1_000_000, bare: 4 * 1024 * 1024 }
/** Names cost the most: each may be another one. Only log probabilities have more, and always the same. */
const MAX_EVENT_NAMES = 64_000
/** An event up to this holds nothing that would take long. */
const SHORT_CHARS = 16 * 1024

/** What a parsed value takes of memory, in bytes, and what a field of an object takes more. */
const VALUE_BYTES = 16
const NAME_BYTES = 48
export const toParsedBytes = ({ values, names }: { values: number; names: number }) =>
  VALUE_BYTES * values + NAME_BYTES * names

/** Why an event is not read; null for one that is. */
export function checkEvent(data: string, call: { wantsLogprobs: boolean }): UpstreamError | null {
  if (data.length <= SHORT_CHARS) return null
  const scan = new JsonScan(EVENT_LIMITS)
  const excess = scan.take(data)
  if (excess) return tooMuch('sent an event', excess)
  return scan.names > MAX_EVENT_NAMES && !call.wantsLogprobs ? tooMuch('sent an event', 'values') : null
}

const EXCESS_WORDS: Record<keyof JsonLimits, string> = {
  depth: `is nested more than ${MAX_DEPTH} levels deep`,
  values: 'holds more values than are read',
  escapes: 'holds more escaped characters than are read',
  bare: 'holds more characters outside of its strings than are read',
}

/**
 * What ends a call whose JSON is too much. Who nests too deeply sends nothing that anybody could read: another one may do better.
 *
 * @param what it did.
 */
export function tooMuch(what: 'answered with JSON' | 'sent an event', excess: keyof JsonLimits): UpstreamError {
  const message = `${what} that ${EXCESS_WORDS[excess]}`
  return excess === 'depth' ? new UpstreamError('broken', message) : tooLong(message)
}
