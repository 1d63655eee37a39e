/**
 * Parses the responses of one HTTP/1.1 connection from its pieces (RFC 9112). Strict about where a response ends: a different reading would
 * give one request another's response.
 */
import {
  CR,
  endOfHead,
  endOfLine,
  endOfTrailers,
  FramingError,
  type Head,
  LF,
  Line,
  type LineEnd,
  parseFields,
  parseHead,
} from './head.ts'

export interface AnswerListener {
  /** Returns the listener for the body. */
  head(head: Head): BodyListener
}

/** Receives the body of one response: any number of `data`, then `end`. */
export interface BodyListener {
  /** Body bytes of one piece without framing, between two positions. */
  data(piece: Buffer, from: number, to: number): void
  end(): void
}

/** Limit in bytes for the status line with headers, for all interim responses, and for trailers. */
const MAX_HEAD_BYTES = 64 * 1024
/** Limit for a chunk's size line, whose extensions are ignored. */
const MAX_SIZE_LINE_BYTES = 256
/** 2^52 bytes, far more than any response. */
const MAX_SIZE_DIGITS = 13

type State = 'idle' | 'head' | 'length' | 'size' | 'chunk' | 'chunk end' | 'trailers' | 'until close'

export class ResponseParser {
  #state: State = 'idle'
  #listener: AnswerListener | null = null
  #body: BodyListener | null = null
  readonly #line = new Line()
  #isLineBegun = false
  #left = 0
  #isHalf = false
  #interim = 0
  #keptMs = 0
  /** Body bytes of the current piece, moved together. */
  #from = 0
  #to = 0

  get isIdle(): boolean {
    return this.#listener === null
  }

  /** How long the connection can take another request, in ms; 0 if the end of the last response is uncertain. */
  get keptMs(): number {
    return this.#listener === null ? this.#keptMs : 0
  }

  expect(listener: AnswerListener): void {
    if (this.#listener) throw new Error('a response is expected already')
    this.#listener = listener
    this.#state = 'head'
    this.#interim = 0
  }

  /** Takes ownership of the next piece. Throws a FramingError after passing on the bytes before the error. */
  feed(bytes: Buffer): void {
    try {
      for (let at = 0; at < bytes.length; ) at = this.#take(bytes, at)
    } finally {
      this.#handOn(bytes)
    }
  }

  stop(): void {
    this.#listener = null
    this.#body = null
    this.#state = 'idle'
    this.#keptMs = 0
  }

  /** The connection was closed in order. Throws a FramingError if that truncates a response. */
  close(): void {
    const isEnd = this.#state === 'until close'
    if (!isEnd && this.#state !== 'idle')
      throw new FramingError(`closed the connection ${this.#state === 'head' ? 'before' : 'during'} the response`)
    this.#keptMs = 0
    if (isEnd) this.#end(null)
  }

  /** Reads from a position and returns the next one. */
  #take(bytes: Buffer, at: number): number {
    switch (this.#state) {
      case 'head':
        return this.#takeHead(bytes, at)
      case 'length':
      case 'chunk':
        return this.#takeBody(bytes, at)
      case 'size':
        return this.#takeSize(bytes, at)
      case 'chunk end':
        return this.#takeChunkEnd(bytes, at)
      case 'trailers':
        return this.#takeTrailers(bytes, at)
      case 'until close':
        this.#add(bytes, at, bytes.length)
        return bytes.length
      case 'idle':
        // Bytes after a complete response belong to no request.
        this.#keptMs = 0
        return bytes.length
    }
  }

  #takeHead(bytes: Buffer, at: number): number {
    const { text, to } = this.#gather(bytes, at, MAX_HEAD_BYTES, endOfHead)
    if (text === null) {
      // Invalid data is recognized by its beginning, since its end might never arrive.
      if (!isBeginning(this.#line.peek())) throw new FramingError('sent invalid HTTP/1.1')
      return to
    }
    const head = parseHead(text)
    // Interim responses precede the real one (RFC 9110, 15.2); no other protocol was requested.
    if (head.status === 101) throw new FramingError('switched protocols, which was not requested')
    if (head.status < 200) {
      this.#interim += text.length
      if (this.#interim > MAX_HEAD_BYTES) throw new FramingError('sent too many interim responses')
      return to
    }
    this.#keptMs = head.length === 'until close' ? 0 : head.keptMs
    this.#left = typeof head.length === 'number' ? head.length : 0
    this.#state = head.length === 'chunked' ? 'size' : head.length === 'until close' ? 'until close' : 'length'
    const body = this.#listener?.head(head) ?? null
    // The listener may have stopped the parser.
    if (this.#listener !== null) this.#body = body
    if (this.#state === 'length' && this.#left === 0) this.#end(bytes)
    return to
  }

  #takeBody(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#left)
    this.#left -= end - at
    this.#add(bytes, at, end)
    if (this.#left > 0) return end
    if (this.#state === 'length') this.#end(bytes)
    else this.#state = 'chunk end'
    return end
  }

  #takeSize(bytes: Buffer, at: number): number {
    const plain = this.#isLineBegun ? -1 : this.#takePlainSize(bytes, at)
    if (plain !== -1) return plain
    const { text, to } = this.#gather(bytes, at, MAX_SIZE_LINE_BYTES, endOfLine)
    if (text === null) return to
    this.#left = readSize(text)
    this.#state = this.#left === 0 ? 'trailers' : 'chunk'
    return to
  }

  /** Reads a chunk's size if its line is complete and plain, as nearly always; -1 for any other, and for the last. */
  #takePlainSize(bytes: Buffer, at: number): number {
    let size = 0
    let next = at
    for (let digit = hexOf(bytes[next]); digit !== -1 && next - at < MAX_SIZE_DIGITS; digit = hexOf(bytes[++next]))
      size = size * 16 + digit
    if (size === 0 || bytes[next] !== CR || bytes[next + 1] !== LF) return -1
    this.#left = size
    this.#state = 'chunk'
    return next + 2
  }

  /** The CRLF after a chunk may arrive in two pieces. */
  #takeChunkEnd(bytes: Buffer, at: number): number {
    if (!this.#isHalf && bytes[at] === CR && bytes[at + 1] === LF) {
      this.#state = 'size'
      return at + 2
    }
    if (bytes[at] !== (this.#isHalf ? LF : CR)) throw new FramingError('sent a chunk longer than its stated size')
    if (this.#isHalf) this.#state = 'size'
    this.#isHalf = !this.#isHalf
    return at + 1
  }

  #takeTrailers(bytes: Buffer, at: number): number {
    const { text, to } = this.#gather(bytes, at, MAX_HEAD_BYTES, endOfTrailers)
    if (text === null) return to
    // Invalid trailers don't end a response.
    if (text.length > 2) parseFields(text.slice(0, -2), 0)
    this.#end(bytes)
    return to
  }

  #gather(bytes: Buffer, at: number, most: number, endOf: LineEnd) {
    const gathered = this.#line.gather(bytes, at, most, endOf)
    this.#isLineBegun = gathered?.text === null
    if (gathered === null) throw new FramingError('sent an overlong head or line')
    return gathered
  }

  /** Joins body bytes of a piece, since one call of the listener costs as much for a chunk as for all chunks. */
  #add(bytes: Buffer, from: number, to: number): void {
    if (this.#to === this.#from) {
      this.#from = from
      this.#to = to
      return
    }
    if (this.#to !== from) bytes.copyWithin(this.#to, from, to)
    this.#to += to - from
  }

  #handOn(bytes: Buffer): void {
    const [from, to] = [this.#from, this.#to]
    this.#from = 0
    this.#to = 0
    if (to > from) this.#body?.data(bytes, from, to)
  }

  /** The listener may have stopped the parser with the last bytes. */
  #end(bytes: Buffer | null): void {
    if (bytes) this.#handOn(bytes)
    const body = this.#body
    this.#listener = null
    this.#body = null
    this.#state = 'idle'
    body?.end()
  }
}

const BEGINNING = Buffer.from('HTTP/1.')
const isBeginning = (line: Uint8Array) => BEGINNING.subarray(0, line.length).equals(line.subarray(0, BEGINNING.length))

function hexOf(byte = 0): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}

/** `<hex digits>[;extensions]` and CRLF (RFC 9112, 7.1). */
function readSize(line: string): number {
  const [, digits = ''] = /^([0-9a-f]+)[ \t]*(?:;[^\r\n\0]*)?\r\n$/i.exec(line) ?? []
  if (digits === '' || digits.length > MAX_SIZE_DIGITS) throw new FramingError('sent a chunk with an invalid size')
  return Number.parseInt(digits, 16)
}
