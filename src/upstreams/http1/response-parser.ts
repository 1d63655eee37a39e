/**
 * Reads the answers of one HTTP/1.1 connection out of the pieces in which they arrive (RFC 9112), one after the other. Strict
 * about where an answer ends: whoever could take that for another place than we do would have one request read another's
 * answer. Pure: no socket, no clock.
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

/** Hears how one answer begins. */
export interface AnswerListener {
  /** Returns who hears the rest. */
  head(head: Head): BodyListener
}

/** Hears the body of one answer: any number of `data`, then `end`. */
export interface BodyListener {
  /** Bytes of the body without their framing, all that a piece holds at once: they stand in it from one place up to another. */
  data(piece: Buffer, from: number, to: number): void
  end(): void
}

/** Of the status line with all headers, of all interim answers, and of trailers, in bytes. */
const MAX_HEAD_BYTES = 64 * 1024
/** Of a line that begins a chunk, whose extensions nobody reads. */
const MAX_SIZE_LINE_BYTES = 256
/** 2^52 bytes, far beyond what any answer has. */
const MAX_SIZE_DIGITS = 13

type State = 'idle' | 'head' | 'length' | 'size' | 'chunk' | 'chunk end' | 'trailers' | 'until close'

export class ResponseParser {
  #state: State = 'idle'
  #listener: AnswerListener | null = null
  /** Null before its head has come. */
  #body: BodyListener | null = null
  /** A head, a size line or trailers, as far as they have arrived. */
  readonly #line = new Line()
  #isLineBegun = false
  /** Bytes that the body, or the chunk, still has. */
  #left = 0
  /** Whether of the CRLF after a chunk the first half has come. */
  #isHalf = false
  /** Bytes of interim answers, such as early hints. */
  #interim = 0
  #keptMs = 0
  /** Of the piece that is read: what stands there of the body, moved together. */
  #from = 0
  #to = 0

  /** Whether nothing is expected. */
  get isIdle(): boolean {
    return this.#listener === null
  }

  /** How long another request may be sent, ms; 0: none, for the last answer did not say how long it is, or that more may come. */
  get keptMs(): number {
    return this.#listener === null ? this.#keptMs : 0
  }

  /** The next answer is to a request that was sent now. */
  expect(listener: AnswerListener): void {
    if (this.#listener) throw new Error('an answer is expected already')
    this.#listener = listener
    this.#state = 'head'
    this.#interim = 0
  }

  /**
   * Takes the next piece, which is its own from now on, until its listener has stopped it. Throws a FramingError, once what came
   * before it was handed on.
   */
  feed(bytes: Buffer): void {
    try {
      for (let at = 0; at < bytes.length; ) at = this.#take(bytes, at)
    } finally {
      this.#handOn(bytes)
    }
  }

  /** Nothing more is heard. */
  stop(): void {
    this.#listener = null
    this.#body = null
    this.#state = 'idle'
    this.#keptMs = 0
  }

  /** The connection was closed in order. Throws a FramingError where that cuts an answer short. */
  close(): void {
    const isEnd = this.#state === 'until close'
    if (!isEnd && this.#state !== 'idle')
      throw new FramingError(`closed the connection ${this.#state === 'head' ? 'before' : 'within'} its answer`)
    this.#keptMs = 0
    if (isEnd) this.#end(null)
  }

  /** Takes what stands at a place; returns where it goes on. */
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
        // More than its answer: that one is whole, and what follows is nobody's.
        this.#keptMs = 0
        return bytes.length
    }
  }

  #takeHead(bytes: Buffer, at: number): number {
    const { text, to } = this.#gather(bytes, at, MAX_HEAD_BYTES, endOfHead)
    if (text === null) {
      // What is none is told by how it begins: its end might never come.
      if (!isBeginning(this.#line.peek())) throw new FramingError('sent something that is no HTTP/1.1')
      return to
    }
    const head = parseHead(text)
    // Interim answers say that the real one is on its way (RFC 9110, 15.2); nobody asked for another protocol.
    if (head.status === 101) throw new FramingError('changed the protocol, which nobody asked for')
    if (head.status < 200) {
      this.#interim += text.length
      if (this.#interim > MAX_HEAD_BYTES) throw new FramingError('sent too many interim answers')
      return to
    }
    this.#keptMs = head.length === 'until close' ? 0 : head.keptMs
    this.#left = typeof head.length === 'number' ? head.length : 0
    this.#state = head.length === 'chunked' ? 'size' : head.length === 'until close' ? 'until close' : 'length'
    const body = this.#listener?.head(head) ?? null
    // Whoever heard it may have stopped it.
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

  /** Takes the size of a chunk where its line is all there and nothing else, as nearly always; -1 for any other, and for the last. */
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

  /** Each chunk is followed by CRLF, which may come in two pieces. */
  #takeChunkEnd(bytes: Buffer, at: number): number {
    if (!this.#isHalf && bytes[at] === CR && bytes[at + 1] === LF) {
      this.#state = 'size'
      return at + 2
    }
    if (bytes[at] !== (this.#isHalf ? LF : CR)) throw new FramingError('sent a chunk that is longer than it says')
    if (this.#isHalf) this.#state = 'size'
    this.#isHalf = !this.#isHalf
    return at + 1
  }

  /** Nobody reads them; an empty line ends them. */
  #takeTrailers(bytes: Buffer, at: number): number {
    const { text, to } = this.#gather(bytes, at, MAX_HEAD_BYTES, endOfTrailers)
    if (text === null) return to
    // What is no trailer is no end of an answer either.
    if (text.length > 2) parseFields(text.slice(0, -2), 0)
    this.#end(bytes)
    return to
  }

  #gather(bytes: Buffer, at: number, most: number, endOf: LineEnd) {
    const gathered = this.#line.gather(bytes, at, most, endOf)
    this.#isLineBegun = gathered?.text === null
    if (gathered === null) throw new FramingError('sent a head or a line that is too long')
    return gathered
  }

  /** Moves bytes of the body to those before them: one chunk at a time would cost its listener as much as all of them. */
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

  /** Its listener may have stopped it with the last bytes. */
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

/** What a hexadecimal digit counts; -1 for any other byte. */
function hexOf(byte = 0): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}

/** `<hex digits>[;extensions]` and CRLF (RFC 9112, 7.1). */
function readSize(line: string): number {
  const [, digits = ''] = /^([0-9a-f]+)[ \t]*(?:;[^\r\n\0]*)?\r\n$/i.exec(line) ?? []
  if (digits === '' || digits.length > MAX_SIZE_DIGITS) throw new FramingError('sent a chunk without a proper length')
  return Number.parseInt(digits, 16)
}
