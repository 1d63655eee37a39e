/**
 * Reads the body of a streamed answer, one batch of events a read. There is one promise a read, and a chunk goes through it
 * in plain calls: a promise, an iterator or a closure more for each chunk costs as much as all that is done with it.
 */
import { UpstreamError } from '../domain/error.ts'
import type { AnswerEvent, AnswerStream, Take } from '../domain/events.ts'
import type { Decoder } from './backend.ts'
import type { Deadline } from './deadline.ts'
import { createSseReader, SseTooLarge } from './sse.ts'

export interface SseStreamOptions {
  call: {
    readonly deadline: Deadline
    abort(error: UpstreamError): void
    toFailure(error: unknown): UpstreamError
  }
  body: ReadableStream<Uint8Array>
  decoder: Decoder
  /** Of one event; a longer one breaks the stream off. */
  maxEventBytes: number
  /** How long the upstream may be silent once it has begun. */
  idleMs: number
}

export class SseStream implements AnswerStream {
  readonly #options: SseStreamOptions
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  readonly #sse
  readonly #utf8 = new TextDecoder()
  #isBegun = false
  #isOver = false

  constructor(options: SseStreamOptions) {
    this.#options = options
    this.#reader = options.body.getReader() as ReadableStreamDefaultReader<Uint8Array>
    this.#sse = createSseReader(options.maxEventBytes)
  }

  async pump(take: Take): Promise<void> {
    const { deadline } = this.#options.call
    deadline.pause(false)
    while (!this.#isOver) {
      const events: AnswerEvent[] = []
      let isRead = false
      try {
        const read = await this.#reader.read()
        if (this.#isOver) return
        isRead = true
        this.#take(read, events)
      } catch (error) {
        if (this.#isOver) return
        // A mistake of our own is none of the upstream's.
        if (isRead && !(error instanceof SseTooLarge)) {
          this.close()
          throw error
        }
        events.push({ kind: 'failure', error: this.#fail(error) })
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
    this.#options.call.abort(new UpstreamError('aborted', 'the answer is no longer wanted', { retryable: false }))
    this.#end()
  }

  /** Adds the events of what was read; the last batch ends in `done` or `failure`. */
  #take({ done, value }: { done: boolean; value?: Uint8Array | undefined }, out: AnswerEvent[]): void {
    if (done) {
      this.#decodeEnd(out)
      this.#end()
      return
    }
    this.#options.call.deadline.touch()
    this.#decode(this.#utf8.decode(value, { stream: true }), out)
    const last = out.at(-1)
    if (last && (last.kind === 'done' || last.kind === 'failure')) this.#end()
  }

  #decode(text: string, out: AnswerEvent[]): void {
    const { decoder, call, idleMs } = this.#options
    const taken = this.#sse.isBetweenEvents() ? decoder.take(text, out) : 0
    if (taken === text.length) return
    const found = this.#sse.feed(taken === 0 ? text : text.slice(taken))
    if (found.length === 0) return
    // Whatever it says, be it only a role: comments that keep the connection alive are no beginning.
    if (!this.#isBegun) call.deadline.enter('idle', idleMs)
    this.#isBegun = true
    for (const event of found) decoder.event(event, out)
  }

  #decodeEnd(out: AnswerEvent[]): void {
    const { decoder } = this.#options
    this.#decode(this.#utf8.decode(), out)
    for (const event of this.#sse.end()) decoder.event(event, out)
    decoder.end(out)
  }

  #fail(error: unknown): UpstreamError {
    const { call, maxEventBytes } = this.#options
    const reason =
      error instanceof SseTooLarge
        ? new UpstreamError('broken', `sent an event of more than ${Math.round(maxEventBytes / 1024 ** 2)} MiB`)
        : error
    const failure = call.toFailure(reason)
    call.abort(failure)
    this.#end()
    return failure
  }

  #end(): void {
    this.#isOver = true
    this.#options.call.deadline.stop()
    this.#reader.cancel().catch(() => {})
  }
}
