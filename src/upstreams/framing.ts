/**
 * Converts bytes of a stream to events: UTF-8 across chunks, server-sent events or JSON lines. Limits JSON, since parsing blocks the event
 * loop.
 */
import { tooLong, UpstreamError } from '../domain/error.ts'
import { type JsonLimits, JsonScan } from '../domain/json-text.ts'

export interface SseEvent {
  name: string | null
  data: string
}

/**
 * Takes LF, CRLF or CR line ends. The nonstandard field `error:` of some servers becomes an event of that name, so that an interrupted
 * stream doesn't look complete.
 */
export class SseReader {
  /** True once an event exceeds the limit, which makes the rest of the stream useless. */
  isTooLarge = false
  /** An unfinished line. Only new text is searched, so a long line isn't rescanned for each piece. */
  #line = ''
  #data: string | null = null
  #name: string | null = null
  /** Ignored at the start of the next piece: a byte order mark, or the second half of a CRLF. */
  #ignored = '\ufeff'

  constructor(readonly maxEventChars: number) {}

  /** Returns the events that the next piece completes, up to one that is too large. */
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

  isBetweenEvents(): boolean {
    return this.#line === '' && this.#data === null && this.#name === null
  }

  /** Returns the event that the end of the stream completes: some servers omit the last blank line. */
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
  isTooLarge = false
  #line = ''

  constructor(readonly maxEventChars: number) {}

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

  isBetweenEvents(): boolean {
    return this.#line === ''
  }

  end(): SseEvent[] {
    return this.feed('\n')
  }
}

/** Bytes below it are whole characters, and end any other one. */
const FIRST_OF_SEVERAL = 0x80

/** True if certainly no character continues after `to`. */
export const endsCharacter = (bytes: Uint8Array, to: number): boolean => (bytes[to - 1] ?? 0) < FIRST_OF_SEVERAL

export class Utf8Reader {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  /** True if certainly no character is unfinished. */
  isBetween = true

  read(bytes: Uint8Array, from: number, to: number): string {
    if (to === from) return ''
    const wasBetween = this.isBetween
    this.isBetween = endsCharacter(bytes, to)
    // Nearly always true. The decoder and the view it needs take three times as long.
    if (wasBetween && this.isBetween && bytes instanceof Buffer) return bytes.toString('utf8', from, to)
    return this.#decoder.decode(bytes.subarray(from, to), { stream: true })
  }

  /** Reads the rest of an unfinished character. */
  end(): string {
    return this.#decoder.decode()
  }
}

export const eventTooLong = (maxBytes: number): UpstreamError =>
  tooLong(`sent an event of more than ${Math.round(maxBytes / 1024 ** 2)} MiB`)

/** The same depth as for requests. */
const MAX_DEPTH = 256

/** For a whole response: 9,000 tokens with 20 logprobs each. For embeddings, only the 64 MiB limit applies. */
export const toWholeLimits = (isEmbedding: boolean): Pick<JsonLimits, 'depth' | 'values'> => ({
  depth: MAX_DEPTH,
  values: isEmbedding ? Number.POSITIVE_INFINITY : 1_000_000,
})

const EVENT_LIMITS: JsonLimits = { depth: MAX_DEPTH, values: 500_000, escapes: 1_000_000, bare: 4 * 1024 * 1024 }
/** Names cost the most if they all differ; only logprobs have more, and those repeat. */
const MAX_EVENT_NAMES = 64_000
const SHORT_CHARS = 16 * 1024

/** Approximate memory of a parsed value, in bytes, and what an object's field adds. */
const VALUE_BYTES = 16
const NAME_BYTES = 48
export const toParsedBytes = ({ values, names }: { values: number; names: number }) =>
  VALUE_BYTES * values + NAME_BYTES * names

export function checkEvent(data: string, call: { wantsLogprobs: boolean }): UpstreamError | null {
  if (data.length <= SHORT_CHARS) return null
  const scan = new JsonScan(EVENT_LIMITS)
  const excess = scan.take(data)
  if (excess) return tooMuch('sent an event', excess)
  return scan.names > MAX_EVENT_NAMES && !call.wantsLogprobs ? tooMuch('sent an event', 'values') : null
}

const EXCESS_WORDS: Record<keyof JsonLimits, string> = {
  depth: `is nested more than ${MAX_DEPTH} levels deep`,
  values: 'has too many values',
  escapes: 'has too many escaped characters',
  bare: 'has too many characters outside strings',
}

/**
 * The failure of a response whose JSON exceeds a limit. No client could read JSON of that depth, so another upstream may be tried.
 * @param what action of the upstream.
 */
export function tooMuch(what: 'returned JSON' | 'sent an event', excess: keyof JsonLimits): UpstreamError {
  const message = `${what} that ${EXCESS_WORDS[excess]}`
  return excess === 'depth' ? new UpstreamError('broken', message) : tooLong(message)
}
