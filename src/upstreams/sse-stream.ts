/**
 * The body of a streamed answer: one batch of the decoder's events a read. A read goes from the socket to whoever takes its
 * events in plain calls: a promise, an iterator or a closure more for each chunk costs as much as all that is done with it.
 */
import { noLongerWanted, tooLong } from '../domain/error.ts'
import type { AnswerEvent, AnswerStream, Take } from '../domain/events.ts'
import type { Decoder, Dialect } from './backend.ts'
import type { HttpCall } from './http-call.ts'
import { LineReader } from './lines.ts'
import { SseReader } from './sse.ts'
import type { Incoming, TakeBytes } from './transport.ts'
import { Utf8Reader } from './utf8.ts'

export class SseStream implements AnswerStream {
  readonly #call: HttpCall
  /** That of the call: whatever a chunk looks at is far away in memory, and each look a quarter of a microsecond. */
  readonly #deadline: HttpCall['deadline']
  readonly #decoder: Decoder
  readonly #idleMs: number
  readonly #response: Incoming
  readonly #sse: SseReader | LineReader
  readonly #utf8 = new Utf8Reader()
  /** Whether what comes next begins an event. */
  #isBetweenEvents = true
  #isBegun = false
  #isOver = false

  /** @param idleMs how long the upstream may be silent once it has begun. */
  constructor(call: HttpCall, response: Incoming, decoder: Decoder, idleMs: number, framing: Dialect['framing']) {
    this.#call = call
    this.#deadline = call.deadline
    this.#decoder = decoder
    this.#idleMs = idleMs
    this.#response = response
    this.#sse = new (framing === 'lines' ? LineReader : SseReader)(call.maxEventBytes)
  }

  async pump(take: Take): Promise<void> {
    this.#deadline.pause(false)
    if (this.#isOver) return
    // What its taker throws, who may yet go on without, and mistakes of our own: nothing of it is the upstream's.
    const thrown: unknown[] = []
    let taken: unknown = null
    const read: TakeBytes = (bytes, from, to) => {
      try {
        const went = this.#isOver ? false : this.#hand(this.#eventsOf(bytes, from, to), take)
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
    const went = take(events)
    if (went === true) return !this.#isOver
    this.#deadline.pause(true)
    if (went === false) return false
    return went.then((isWanted) => {
      if (isWanted) this.#deadline.pause(false)
      return isWanted && !this.#isOver
    })
  }

  close(): void {
    if (this.#isOver) return
    this.#call.abort(noLongerWanted())
    this.#end()
  }

  /** The events of what was read; the last batch ends in `done` or `failure`. */
  #eventsOf(bytes: Uint8Array, from: number, to: number): AnswerEvent[] {
    const out: AnswerEvent[] = []
    this.#deadline.touch()
    try {
      this.#decode(this.#utf8.read(bytes, from, to), out)
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
      this.#decode(this.#utf8.end(), out)
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
    const taken = this.#isBetweenEvents ? this.#decoder.take(text, out) : 0
    if (taken === text.length) return
    const found = this.#sse.feed(taken === 0 ? text : text.slice(taken))
    this.#isBetweenEvents = this.#sse.isBetweenEvents()
    if (found.length === 0) return
    // Whatever it says, be it only a role: comments that keep the connection alive are no beginning.
    if (!this.#isBegun) this.#deadline.enter('idle', this.#idleMs)
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
    this.#deadline.stop()
    this.#response.leave()
  }
}
