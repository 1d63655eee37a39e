/**
 * Body of a streamed response: one batch of events per read, in plain calls, because a promise, iterator or closure per chunk costs as much
 * as all other work on it.
 */
import { endedBy, UpstreamError } from '../domain/error.ts'
import { type AnswerEvent, type AnswerStream, isContent, type PassthroughSink, type Take } from '../domain/events.ts'
import type { ActivitySource } from './deadline.ts'
import type { BytesDecoder, Decoder, PlainReader, WireFormat } from './dialects/dialect.ts'
import { checkEvent, endsCharacter, eventTooLong, LineReader, type SseEvent, SseReader, Utf8Reader } from './framing.ts'
import type { HttpCall } from './http-call.ts'
import type { BodyTaker, Incoming } from './transport.ts'

/** Limit before the first content. Some upstreams repeat the request there, in at most two events of maximum size. */
const MAX_UNSAID_BYTES = 16 * 1024 * 1024
/** Limit in events, for images: an image is one event, and counts as content only at its end. */
const MAX_UNSAID_EVENTS = 2

const isBeginning = (event: AnswerEvent) => event.kind === 'working' || isContent(event)

export class SseStream implements AnswerStream, BodyTaker, ActivitySource {
  readonly #call: HttpCall
  /** Copied from the call: each extra object that a chunk looks at costs some 0.2 us. */
  readonly #deadline: HttpCall['deadline']
  readonly #decoder: Decoder
  readonly #idleMs: number
  readonly #response: Pick<Incoming, 'pump' | 'leave'>
  readonly #sse: SseReader | LineReader
  readonly #utf8 = new Utf8Reader()
  /** True if the next byte certainly begins an event and a character, so readers with empty buffers can be skipped. */
  #isBetween = true
  #take: Take = () => false
  #sink: PassthroughSink | null = null
  #plain: PlainReader | null = null
  /** Errors of the consumer and our own bugs, which must not be blamed on the upstream. */
  #thrown: unknown[] = []
  #taken: Promise<boolean> | null = null
  isHeard = false
  /** True once the model has begun to respond, reason or use a tool. From then on, any byte resets the idle timeout. */
  #isBegun = false
  #unsaidBytes: number | null = 0
  #isOver = false

  /** @param idleMs maximum silence once the upstream has begun. */
  constructor(
    call: HttpCall,
    response: Pick<Incoming, 'pump' | 'leave'>,
    decoder: Decoder,
    idleMs: number,
    framing: WireFormat['framing'],
  ) {
    this.#call = call
    this.#deadline = call.deadline
    this.#decoder = decoder
    this.#idleMs = idleMs
    this.#response = response
    this.#sse = new (framing === 'lines' ? LineReader : SseReader)(call.maxEventBytes)
  }

  async pump(take: Take, sink?: PassthroughSink): Promise<void> {
    this.#deadline.pause(false)
    if (this.#isOver) return
    this.#take = take
    this.#sink = sink ?? null
    this.#plain = null
    this.#taken = null
    this.#thrown = []
    const last: AnswerEvent[] = []
    const isEnd = await this.#response.pump(this).catch((error) => {
      if (!this.#isOver) this.#fail(error, last)
      return false
    })
    await this.#taken
    if (this.#thrown.length > 0) throw this.#thrown[0]
    if (isEnd && !this.#isOver) this.#finish(last)
    if (last.length > 0) await take(last)
  }

  takeBytes(bytes: Uint8Array, from: number, to: number): boolean | Promise<boolean> {
    try {
      const went = this.#isOver ? false : this.#read(bytes, from, to)
      return typeof went === 'boolean' ? went : this.#await(went)
    } catch (error) {
      this.#thrown.push(error)
      return false
    }
  }

  #await(went: Promise<boolean>): Promise<boolean> {
    const taken = went.catch((error) => {
      this.#thrown.push(error)
      return false
    })
    this.#taken = taken
    return taken
  }

  close(): void {
    if (this.#isOver) return
    this.#call.abort(endedBy('superseded'))
    this.#end()
  }

  /** Passes on the events that were read. Returns true if the consumer wants more and there is more. */
  #read(bytes: Uint8Array, from: number, to: number): boolean | Promise<boolean> {
    this.isHeard = true
    let text: string
    let said: string | null
    try {
      text = this.#textOf(bytes, from, to)
      said = this.#plain?.read(text) ?? null
    } catch (error) {
      throw this.#closed(error)
    }
    if (this.#sink && said !== null) return this.#goOn(this.#sink.pass(text, said))
    const events = this.#eventsOf(text)
    if (this.#unsaidBytes !== null) this.#waitForContent(this.#unsaidBytes + to - from, events)
    this.#plain = this.#sink && this.#isBetween ? (this.#decoder.plain ?? null) : null
    return events.length === 0 ? !this.#isOver : this.#goOn(this.#take(events))
  }

  #goOn(went: boolean | Promise<boolean>): boolean | Promise<boolean> {
    if (went === true) return !this.#isOver
    this.#deadline.pause(true)
    if (went === false) return false
    return went.then((isWanted) => {
      if (isWanted) this.#deadline.pause(false)
      return isWanted && !this.#isOver
    })
  }

  #textOf(bytes: Uint8Array, from: number, to: number): string {
    if (this.#isBetween && bytes instanceof Buffer && endsCharacter(bytes, to)) return bytes.toString('utf8', from, to)
    const text = this.#utf8.read(bytes, from, to)
    this.#isBetween &&= this.#utf8.isBetween
    return text
  }

  #eventsOf(text: string): AnswerEvent[] {
    const out: AnswerEvent[] = []
    try {
      this.#decode(text, out)
    } catch (error) {
      throw this.#closed(error)
    }
    const last = out.at(-1)
    if (last?.kind === 'done' || last?.kind === 'failure') this.#end()
    else if (!this.#isBetween && this.#sse.isTooLarge) this.#fail(eventTooLong(this.#sse.maxEventChars), out)
    return out
  }

  #finish(out: AnswerEvent[]): void {
    try {
      this.#decode(this.#utf8.end(), out)
      this.#decodeAll(this.#sse.end(), out)
      if (!this.#isOver) this.#decoder.end(out)
    } catch (error) {
      throw this.#closed(error)
    }
    this.#end()
  }

  /** Closes everything after a bug of ours. */
  #closed(error: unknown): unknown {
    this.close()
    return error
  }

  #decode(text: string, out: AnswerEvent[]): void {
    const taken = this.#isBetween ? this.#decoder.take(text, out) : 0
    if (taken === text.length) return
    const found = this.#sse.feed(taken === 0 ? text : text.slice(taken))
    this.#isBetween = this.#sse.isBetweenEvents() && this.#utf8.isBetween && !this.#sse.isTooLarge
    this.#decodeAll(found, out)
  }

  #decodeAll(events: readonly SseEvent[], out: AnswerEvent[]): void {
    for (const event of events) {
      if (this.#isOver) return
      const tooMuch = checkEvent(event.data, this.#call)
      if (tooMuch) this.#fail(tooMuch, out)
      else this.#decoder.event(event, out)
    }
  }

  /** Pings don't count as content: `first_token` keeps running, and too many bytes end the call. */
  #waitForContent(bytes: number, events: AnswerEvent[]): void {
    if (this.#isOver) return
    if (!this.#isBegun && events.some(isBeginning)) {
      this.#isBegun = true
      this.#deadline.enter('idle', this.#idleMs)
      this.#deadline.askOf(this)
    }
    this.#unsaidBytes = events.some(isContent) ? null : bytes
    if (this.#unsaidBytes === null || bytes <= MAX_UNSAID_BYTES) return
    const most = Math.max(MAX_UNSAID_BYTES, MAX_UNSAID_EVENTS * this.#call.maxEventBytes)
    if (bytes > most)
      this.#fail(new UpstreamError('broken', `sent more than ${most / 1024 ** 2} MiB without any content`), events)
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

/** After larger pieces, streams continue in turns. Hundreds of them at full speed would block other requests. */
const MAX_SMALL_BYTES = 16 * 1024
/** Bytes received and copied per ms of the event loop. */
const BYTES_PER_MS = 1024 * 1024
export const toReadingMs = (bytes: number) => bytes / BYTES_PER_MS

/** A response of bytes, such as speech: each piece is an event, and the first one begins the response. */
export class BytesStream implements AnswerStream, BodyTaker, ActivitySource {
  readonly #call: HttpCall
  readonly #response: Incoming
  readonly #decoder: BytesDecoder
  readonly #idleMs: number
  #take: Take = () => false
  #thrown: unknown[] = []
  #taken: Promise<boolean> | null = null
  #isBegun = false
  #isOver = false
  isHeard = false

  constructor(call: HttpCall, response: Incoming, decoder: BytesDecoder, idleMs: number) {
    this.#call = call
    this.#response = response
    this.#decoder = decoder
    this.#idleMs = idleMs
  }

  async pump(take: Take): Promise<void> {
    const { deadline } = this.#call
    deadline.pause(false)
    if (this.#isOver) return
    this.#take = take
    this.#taken = null
    this.#thrown = []
    const last: AnswerEvent[] = []
    const isEnd = await this.#response.pump(this).catch((error) => {
      last.push({ kind: 'failure', error: this.#call.toError(error) })
      return false
    })
    await this.#taken
    if (this.#thrown.length > 0) throw this.#thrown[0]
    if (this.#isOver) return
    if (isEnd) this.#decoder.end(last)
    if (last.length === 0) return
    this.#end()
    await take(last)
  }

  takeBytes(bytes: Uint8Array, from: number, to: number): boolean | Promise<boolean> {
    this.isHeard = true
    try {
      const events: AnswerEvent[] = []
      this.#decoder.bytes(bytes.subarray(from, to), events)
      if (events.length === 0) return !this.#isOver
      if (!this.#isBegun) {
        this.#isBegun = true
        this.#call.deadline.enter('idle', this.#idleMs)
        this.#call.deadline.askOf(this)
      }
      const length = to - from
      if (length <= MAX_SMALL_BYTES) return this.#goOn(this.#take(events))
      return this.#goOn(this.#inTurn(this.#take(events), length))
    } catch (error) {
      this.#thrown.push(error)
      return false
    }
  }

  /** Continues when it is the key's turn. */
  async #inTurn(went: boolean | Promise<boolean>, bytes: number): Promise<boolean> {
    return (await went) && this.#call.inTurn(() => true, toReadingMs(bytes))
  }

  #goOn(went: boolean | Promise<boolean>): boolean | Promise<boolean> {
    if (went === true) return !this.#isOver
    const { deadline } = this.#call
    deadline.pause(true)
    if (went === false) return false
    const taken = went.then(
      (isWanted) => {
        if (isWanted) deadline.pause(false)
        return isWanted && !this.#isOver
      },
      (error) => {
        this.#thrown.push(error)
        return false
      },
    )
    this.#taken = taken
    return taken
  }

  close(): void {
    if (this.#isOver) return
    this.#call.abort(endedBy('superseded'))
    this.#end()
  }

  #end(): void {
    this.#isOver = true
    this.#call.deadline.stop()
    this.#response.leave()
  }
}
