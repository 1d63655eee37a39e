/**
 * The head of an HTTP/1.1 answer: its status, its headers, and how it says where its body ends (RFC 9112, 6.3). What two
 * readers could take differently is refused. Pure.
 */

export interface Head {
  status: number
  /** By lower-case name; the values of one that comes several times are joined by `, `. */
  headers: ReadonlyMap<string, string>
  /** How many bytes its body has, where it says so. */
  length: number | 'chunked' | 'until close'
  /** How long its connection is kept for more, ms: 0 where it is not, Infinity where nothing is said. */
  keptMs: number
}

/** Something that is no HTTP/1.1, or more than we read. Nothing after it can be believed. Its message quotes nothing of it. */
export class FramingError extends Error {
  override readonly name = 'FramingError'
}

const STATUS_LINE = /^HTTP\/1\.[01] [1-9]\d\d(?: [\t\x20-\x7e\x80-\xff]*)?$/
/** Where the two figures stand in one. */
const MINOR = 'HTTP/1.'.length
const STATUS = 'HTTP/1.1 '.length
/** Lines without control characters. */
const LINES = /^(?:[\t\x20-\x7e\x80-\xff]|\r\n)*$/
/** A token. What begins with a blank would go on with the line before it. */
const NAME = /^[!#$%&'*+.^_`|~\dA-Za-z-]+$/
/** Names as they were sent, and in lower case: a server sends the same ones with every answer. */
const names = new Map<string, string>()
const MAX_NAMES = 1_000
const MAX_FIELDS = 200
const DIGITS = /^\d{1,15}$/

/** Parses a status line and headers, up to and with the empty line, a character a byte. Throws a FramingError. */
export function parseHead(head: string): Head {
  const text = head.slice(0, -2)
  const from = text.indexOf('\r\n')
  if (!STATUS_LINE.test(text.slice(0, from))) throw new FramingError('sent something that is no HTTP/1.1 status line')
  const minor = text[MINOR]
  const status = Number(text.slice(STATUS, STATUS + 3))
  const headers = parseFields(text, from + 2)
  const length = toLength(status, headers)
  if (length === 'chunked' && minor === '0') throw new FramingError('sent chunks as HTTP/1.0, which has none')
  // Who says in two ways how long an answer is may be misread by others on the same connection.
  const isPlain = !(headers.has('transfer-encoding') && headers.has('content-length'))
  return { status, headers, length, keptMs: minor === '1' && isPlain ? toKeptMs(headers) : 0 }
}

const TIMEOUT = /(?:^|[, ])timeout=(\d{1,9})(?:$|[, ])/i

/** `keep-alive: timeout=5` is what Node.js and uvicorn say, and do (RFC 2068, 19.7.1.1). */
function toKeptMs(headers: ReadonlyMap<string, string>): number {
  const options = headers.get('connection')?.toLowerCase().split(',')
  if (options?.some((option) => option.trim() === 'close')) return 0
  const seconds = TIMEOUT.exec(headers.get('keep-alive') ?? '')?.[1]
  return seconds === undefined ? Number.POSITIVE_INFINITY : Number(seconds) * 1_000
}

/** Parses the lines of headers, or of trailers, that begin at a place. Each has its CRLF. Throws a FramingError. */
export function parseFields(text: string, from: number): Map<string, string> {
  if (!LINES.test(text)) throw new FramingError('sent a header that is none')
  const fields = new Map<string, string>()
  let count = 0
  for (let at = from; at < text.length; ) {
    const end = text.indexOf('\r\n', at)
    const colon = text.indexOf(':', at)
    if (colon === -1 || colon > end) throw new FramingError('sent a header that is none')
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
  if (!NAME.test(name)) throw new FramingError('sent a header that is none')
  const key = name.toLowerCase()
  if (names.size < MAX_NAMES && name.length <= 64) names.set(name, key)
  return key
}

/** A part of a text without blanks at its ends: none but these two, and in one go, for it may be long. */
function withoutBlanks(text: string, begin: number, end: number): string {
  let from = begin
  let to = end
  while (from < to && isBlank(text.charCodeAt(from))) from++
  while (to > from && isBlank(text.charCodeAt(to - 1))) to--
  return text.slice(from, to)
}

const isBlank = (code: number) => code === 32 || code === 9

/** Chunks count where an answer has both (RFC 9112, 6.3). */
function toLength(status: number, headers: ReadonlyMap<string, string>): Head['length'] {
  const encoding = headers.get('transfer-encoding')
  if (encoding !== undefined && encoding.toLowerCase() !== 'chunked')
    throw new FramingError('sent a transfer-encoding other than chunked')
  const length = toOneLength(headers.get('content-length'))
  // These have no body, whatever their headers say.
  if (status < 200 || status === 204 || status === 304) return 0
  if (encoding !== undefined) return 'chunked'
  return length === undefined ? 'until close' : Number(length)
}

/** Some servers say the same length twice. */
function toOneLength(text: string | undefined): string | undefined {
  if (text === undefined || DIGITS.test(text)) return text
  const lengths = text.split(', ')
  if (lengths.some((length) => !DIGITS.test(length) || length !== lengths[0]))
    throw new FramingError('sent a content-length that is no length')
  return lengths[0]
}

export const CR = 13
export const LF = 10
const NOTHING = Buffer.alloc(0)

/**
 * Says where what is read goes on behind the end of a line that begins at `start`; -1 where that end is not there. What stands
 * before `from` was looked through.
 */
export type LineEnd = (bytes: Buffer, start: number, from: number) => number

/** What has arrived of one of them, until its end is there; then of the next. */
export class Line {
  #held = NOTHING
  #length = 0

  /**
   * Adds what stands in a piece from `at` on, up to the end that `endOf` finds. The line is whole then, a character a byte, and
   * `to` is where the piece goes on; without an end all of it is held. Null where it is longer than `most`.
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

  /** What is held. */
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

  /** Puts bytes behind those that are held. */
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
/** An empty line ends them, be it the first. */
export const endOfTrailers: LineEnd = (bytes, start, from) => {
  if (bytes.length < start + 2) return -1
  return bytes[start] === CR && bytes[start + 1] === LF ? start + 2 : endOfHead(bytes, start, from)
}
