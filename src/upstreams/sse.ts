/**
 * The body of a streamed answer: server-sent events out of the pieces in which it arrives, as the WHATWG specification
 * parses them, and one batch of the decoder's events a read. A read goes from the socket to whoever takes its events in plain
 * calls: a promise, an iterator or a closure more for each chunk costs as much as all that is done with it.
 */
import { noLongerWanted, tooLong } from '../domain/error.ts'
import type { AnswerEvent, AnswerStream, Take } from '../domain/events.ts'
import type { Decoder } from './backend.ts'
import type { HttpCall } from './http.ts'
import type { Incoming } from './transport.ts'

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
  readonly #response: Incoming
  readonly #sse: SseReader
  readonly #utf8 = new TextDecoder()
  #isBegun = false
  #isOver = false

  /** @param idleMs how long the upstream may be silent once it has begun. */
  constructor(call: HttpCall, response: Incoming, decoder: Decoder, idleMs: number) {
    this.#call = call
    this.#decoder = decoder
    this.#idleMs = idleMs
    this.#response = response
    this.#sse = new SseReader(call.maxEventBytes)
  }

  async pump(take: Take): Promise<void> {
    this.#call.deadline.pause(false)
    if (this.#isOver) return
    // What its taker throws, who may yet go on without, and mistakes of our own: nothing of it is the upstream's.
    const thrown: unknown[] = []
    let taken: unknown = null
    const read = (bytes: Uint8Array): boolean | Promise<boolean> => {
      try {
        const went = this.#isOver ? false : this.#hand(this.#eventsOf(bytes), take)
        if (typeof went === 'boolean') return went
        const taking = went.catch((error) => {
          thrown.push(error)
          return false
        })
        taken = taking
        return taking
      } catch (error) {
        thrown.push(error)
        return false
      }
    }
    const last: AnswerEvent[] = []
    const isEnd = await this.#response.pump(read).catch((error) => {
      if (!this.#isOver) this.#fail(error, last)
      return false
    })
    await taken
    if (thrown.length > 0) throw thrown[0]
    if (isEnd && !this.#isOver) this.#finish(last)
    await this.#hand(last, take)
  }

  /** Whether more is wanted, and there is more. */
  #hand(events: readonly AnswerEvent[], take: Take): boolean | Promise<boolean> {
    if (events.length === 0) return !this.#isOver
    const { deadline } = this.#call
    const went = take(events)
    if (went === true) return !this.#isOver
    deadline.pause(true)
    if (went === false) return false
    return went.then((isWanted) => {
      if (isWanted) deadline.pause(false)
      return isWanted && !this.#isOver
    })
  }

  close(): void {
    if (this.#isOver) return
    this.#call.abort(noLongerWanted())
    this.#end()
  }

  /** The events of what was read; the last batch ends in `done` or `failure`. */
  #eventsOf(bytes: Uint8Array): AnswerEvent[] {
    const out: AnswerEvent[] = []
    this.#call.deadline.touch()
    try {
      this.#decode(this.#utf8.decode(bytes, { stream: true }), out)
    } catch (error) {
      throw this.#closed(error)
    }
    const last = out.at(-1)
    if (last?.kind === 'done' || last?.kind === 'failure') this.#end()
    else if (this.#sse.isTooLarge) {
      const limit = `${Math.round(this.#sse.maxEventChars / 1024 ** 2)} MiB`
      this.#fail(tooLong(`sent an event of more than ${limit}`), out)
    }
    return out
  }

  /** Its body has ended. */
  #finish(out: AnswerEvent[]): void {
    try {
      this.#decode(this.#utf8.decode(), out)
      for (const event of this.#sse.end()) this.#decoder.event(event, out)
      this.#decoder.end(out)
    } catch (error) {
      throw this.#closed(error)
    }
    this.#end()
  }

  /** A mistake of our own leaves nothing open. */
  #closed(error: unknown): unknown {
    this.close()
    return error
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
    this.#response.leave()
  }
}
