/**
 * Head of an HTTP/1.1 response: status, headers, and where the body ends (RFC 9112, 6.3). Rejects heads that two readers could interpret
 * differently.
 */

export interface Head {
  status: number
  /** By lower-case name; repeated headers are joined by `, `. */
  headers: ReadonlyMap<string, string>
  length: number | 'chunked' | 'until close'
  /** How long the server keeps the connection, in ms: 0 if it doesn't, Infinity if unstated. */
  keptMs: number
}

/** Invalid HTTP/1.1, or beyond our limits. Later bytes can't be trusted. The message doesn't quote the response. */
export class FramingError extends Error {
  override readonly name = 'FramingError'
}

const STATUS_LINE = /^HTTP\/1\.[01] [1-9]\d\d(?: [\t\x20-\x7e\x80-\xff]*)?$/
/** Positions of the digits of the version and the status. */
const MINOR = 'HTTP/1.'.length
const STATUS = 'HTTP/1.1 '.length
const LINES = /^(?:[\t\x20-\x7e\x80-\xff]|\r\n)*$/
/** A token. A leading blank would continue the previous line. */
const NAME = /^[!#$%&'*+.^_`|~\dA-Za-z-]+$/
/** Lower-case names by name as sent: a server repeats them in every response. */
const names = new Map<string, string>()
const MAX_NAMES = 1_000
const MAX_FIELDS = 200
const DIGITS = /^\d{1,15}$/

/** Parses a status line and headers including the empty line, one character per byte. Throws a FramingError. */
export function parseHead(head: string): Head {
  const text = head.slice(0, -2)
  const from = text.indexOf('\r\n')
  if (!STATUS_LINE.test(text.slice(0, from))) throw new FramingError('sent an invalid HTTP/1.1 status line')
  const minor = text[MINOR]
  const status = Number(text.slice(STATUS, STATUS + 3))
  const headers = parseFields(text, from + 2)
  const length = toLength(status, headers)
  if (length === 'chunked' && minor === '0') throw new FramingError('sent a chunked body over HTTP/1.0')
  // With two lengths, two readers may disagree where the response ends.
  const isPlain = !(headers.has('transfer-encoding') && headers.has('content-length'))
  return { status, headers, length, keptMs: minor === '1' && isPlain ? toKeptMs(headers) : 0 }
}

const TIMEOUT = /(?:^|[, ])timeout=(\d{1,9})(?:$|[, ])/i

/** Node.js and uvicorn send `keep-alive: timeout=5` (RFC 2068, 19.7.1.1). */
function toKeptMs(headers: ReadonlyMap<string, string>): number {
  const options = headers.get('connection')?.toLowerCase().split(',')
  if (options?.some((option) => option.trim() === 'close')) return 0
  const seconds = TIMEOUT.exec(headers.get('keep-alive') ?? '')?.[1]
  return seconds === undefined ? Number.POSITIVE_INFINITY : Number(seconds) * 1_000
}

/** Parses headers or trailers from a position, each line with its CRLF. Throws a FramingError. */
export function parseFields(text: string, from: number): Map<string, string> {
  if (!LINES.test(text)) throw new FramingError('sent an invalid header')
  const fields = new Map<string, string>()
  let count = 0
  for (let at = from; at < text.length; ) {
    const end = text.indexOf('\r\n', at)
    const colon = text.indexOf(':', at)
    if (colon === -1 || colon > end) throw new FramingError('sent an invalid header')
    if (++count > MAX_FIELDS) throw new FramingError(`sent more than ${MAX_FIELDS} headers`)
    const key = toKey(text.slice(at, colon))
    const value = withoutBlanks(text, colon + 1, end)
    const before = fields.get(key)
    fields.set(key, before === undefined ? value : `${before}, ${value}`)
    at = end + 2
  }
  return fields
}

function toKey(name: string): string {
  const known = names.get(name)
  if (known !== undefined) return known
  if (!NAME.test(name)) throw new FramingError('sent an invalid header')
  const key = name.toLowerCase()
  if (names.size < MAX_NAMES && name.length <= 64) names.set(name, key)
  return key
}

/** Trims spaces and tabs only, in one pass, since it may be long. */
function withoutBlanks(text: string, begin: number, end: number): string {
  let from = begin
  let to = end
  while (from < to && isBlank(text.charCodeAt(from))) from++
  while (to > from && isBlank(text.charCodeAt(to - 1))) to--
  return text.slice(from, to)
}

const isBlank = (code: number) => code === 32 || code === 9

/** `chunked` overrides a content-length (RFC 9112, 6.3). */
function toLength(status: number, headers: ReadonlyMap<string, string>): Head['length'] {
  const encoding = headers.get('transfer-encoding')
  if (encoding !== undefined && encoding.toLowerCase() !== 'chunked')
    throw new FramingError('sent a transfer-encoding other than chunked')
  const length = toOneLength(headers.get('content-length'))
  // These never have a body.
  if (status < 200 || status === 204 || status === 304) return 0
  if (encoding !== undefined) return 'chunked'
  return length === undefined ? 'until close' : Number(length)
}

/** Some servers repeat the same length. */
function toOneLength(text: string | undefined): string | undefined {
  if (text === undefined || DIGITS.test(text)) return text
  const lengths = text.split(', ')
  if (lengths.some((length) => !DIGITS.test(length) || length !== lengths[0]))
    throw new FramingError('sent an invalid content-length')
  return lengths[0]
}

export const CR = 13
export const LF = 10
const NOTHING = Buffer.alloc(0)

/** Position after the end of a line that begins at `start`; -1 if it isn't there. Bytes before `from` were searched already. */
export type LineEnd = (bytes: Buffer, start: number, from: number) => number

/** Collects a line until its end arrives. */
export class Line {
  #held = NOTHING
  #length = 0

  /**
   * Adds a piece from `at` up to the end that `endOf` finds. Then `text` is the line, one character per byte, and `to` the next
   * position. Without an end, everything is kept and `text` is null. Returns null if the line is longer than `most`.
   */
  gather(piece: Buffer, at: number, most: number, endOf: LineEnd): { text: string | null; to: number } | null {
    const before = this.#length
    if (before > 0) return this.#gatherOn(piece.subarray(at, at + most + 1 - before), at, most, endOf)
    const end = endOf(piece, at, at)
    if ((end === -1 ? piece.length : end) - at > most) return null
    if (end !== -1) return { text: piece.toString('latin1', at, end), to: end }
    this.#hold(piece.subarray(at))
    return { text: null, to: piece.length }
  }

  peek(): Uint8Array {
    return this.#held.subarray(0, this.#length)
  }

  #gatherOn(rest: Buffer, at: number, most: number, endOf: LineEnd): { text: string | null; to: number } | null {
    const before = this.#length
    const line = this.#hold(rest)
    const end = endOf(line, 0, before)
    if ((end === -1 ? line.length : end) > most) return null
    if (end === -1) return { text: null, to: at + rest.length }
    this.#length = 0
    this.#held = NOTHING
    return { text: line.toString('latin1', 0, end), to: at + end - before }
  }

  #hold(bytes: Uint8Array): Buffer {
    const length = this.#length + bytes.length
    if (length > this.#held.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, 2 * this.#held.length))
      larger.set(this.peek())
      this.#held = larger
    }
    this.#held.set(bytes, this.#length)
    this.#length = length
    return this.#held.subarray(0, length)
  }
}

function endOfText(bytes: Buffer, text: string, start: number, from: number): number {
  const at = bytes.indexOf(text, Math.max(start, from - text.length + 1))
  return at === -1 ? -1 : at + text.length
}

export const endOfLine: LineEnd = (bytes, start, from) => endOfText(bytes, '\n', start, from)
export const endOfHead: LineEnd = (bytes, start, from) => endOfText(bytes, '\r\n\r\n', start, from)
/** Ended by an empty line, which may be the first. */
export const endOfTrailers: LineEnd = (bytes, start, from) => {
  if (bytes.length < start + 2) return -1
  return bytes[start] === CR && bytes[start + 1] === LF ? start + 2 : endOfHead(bytes, start, from)
}
