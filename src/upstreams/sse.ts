/**
 * The body of a streamed answer: server-sent events out of the pieces in which it arrives, as the WHATWG specification
 * parses them, and one batch of the decoder's events a read. There is one promise a read, and a chunk goes through it in
 * plain calls: a promise, an iterator or a closure more for each chunk costs as much as all that is done with it.
 */
import { noLongerWanted, tooLong } from '../domain/error.ts'
import type { AnswerEvent, AnswerStream, Take } from '../domain/events.ts'
import type { Decoder } from './backend.ts'
import type { HttpCall } from './http.ts'

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

export class SseStream implements AnswerStream {
  readonly #call: HttpCall
  readonly #decoder: Decoder
  readonly #idleMs: number
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  readonly #sse: SseReader
  readonly #utf8 = new TextDecoder()
  #isBegun = false
  #isOver = false

  /** @param idleMs how long the upstream may be silent once it has begun. */
  constructor(call: HttpCall, body: ReadableStream<Uint8Array>, decoder: Decoder, idleMs: number) {
    this.#call = call
    this.#decoder = decoder
    this.#idleMs = idleMs
    this.#reader = body.getReader() as ReadableStreamDefaultReader<Uint8Array>
    this.#sse = new SseReader(call.maxEventBytes)
  }

  async pump(take: Take): Promise<void> {
    const { deadline } = this.#call
    deadline.pause(false)
    while (!this.#isOver) {
      const events: AnswerEvent[] = []
      let isRead = false
      try {
        const read = await this.#reader.read()
        isRead = true
        if (!this.#isOver) this.#take(read, events)
      } catch (error) {
        // A mistake of our own is none of the upstream's.
        if (isRead) {
          this.close()
          throw error
        }
        if (!this.#isOver) this.#fail(error, events)
      }
      if (events.length === 0) continue
      const went = take(events)
      if (went === true) continue
      deadline.pause(true)
      if (went === false || !(await went)) return
      deadline.pause(false)
    }
  }

  close(): void {
    if (this.#isOver) return
    this.#call.abort(noLongerWanted())
    this.#end()
  }

  /** Adds the events of what was read; the last batch ends in `done` or `failure`. */
  #take({ done, value }: { done: boolean; value?: Uint8Array | undefined }, out: AnswerEvent[]): void {
    this.#call.deadline.touch()
    this.#decode(done ? this.#utf8.decode() : this.#utf8.decode(value, { stream: true }), out)
    if (done) {
      for (const event of this.#sse.end()) this.#decoder.event(event, out)
      this.#decoder.end(out)
    }
    const last = out.at(-1)
    if (done || last?.kind === 'done' || last?.kind === 'failure') this.#end()
    else if (this.#sse.isTooLarge) {
      const limit = `${Math.round(this.#sse.maxEventChars / 1024 ** 2)} MiB`
      this.#fail(tooLong(`sent an event of more than ${limit}`), out)
    }
  }

  #decode(text: string, out: AnswerEvent[]): void {
    const taken = this.#sse.isBetweenEvents() ? this.#decoder.take(text, out) : 0
    if (taken === text.length) return
    const found = this.#sse.feed(taken === 0 ? text : text.slice(taken))
    if (found.length === 0) return
    // Whatever it says, be it only a role: comments that keep the connection alive are no beginning.
    if (!this.#isBegun) this.#call.deadline.enter('idle', this.#idleMs)
    this.#isBegun = true
    for (const event of found) this.#decoder.event(event, out)
  }

  #fail(error: unknown, out: AnswerEvent[]): void {
    const failure = this.#call.toError(error)
    this.#call.abort(failure)
    this.#end()
    out.push({ kind: 'failure', error: failure })
  }

  #end(): void {
    this.#isOver = true
    this.#call.deadline.stop()
    this.#reader.cancel().catch(() => {})
  }
}
