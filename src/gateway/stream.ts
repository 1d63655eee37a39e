/**
 * Delivers a streamed response: waits for its start, so that early failures get a real HTTP status, and ends with a
 * tail that waited for the ledger, or with an error frame.
 */

import { type EndSignal, endReasonOf } from '../domain/end-signal.ts'
import { endedBy, endOf, GatewayError, UpstreamError } from '../domain/error.ts'
import type { AnswerEvent, PassthroughSink } from '../domain/events.ts'
import { isChat } from '../domain/task.ts'
import type { Frames, PassthroughStreamWriter, Piece, Writer } from '../formats/format.ts'
import { Turns } from '../threads/turns.ts'
import { release } from '../upstreams/pieces.ts'
import { type Begun, type Delivery, isUnmet, settleFailure, toCause, toComplete, toHeaders } from './delivery.ts'

/**
 * Also resolves when the first keep-alive is due. Throws a GatewayError on earlier failure, with its row already
 * settled.
 */
export async function deliverStream(
  delivery: Delivery,
  opening: Promise<Begun>,
  options: SinkOptions,
): Promise<Response> {
  let begun: Begun | null
  try {
    const { format, task, identity } = delivery
    // A response that can't be kept alive waits for its first bytes.
    const canBeAlive = isChat(task) || format.writer(task, identity).keepAlive !== null
    begun = await within(opening, canBeAlive ? options.heartbeatMs : 0)
    if (delivery.signal.aborted) {
      // No client is left: the rest is read only for its usage.
      const { answer } = begun ?? (await opening)
      answer.rest?.close()
      throw endOf(delivery.signal)
    }
  } catch (error) {
    throw await settleFailure(delivery.settlement, toCause(error, delivery.signal), 'nothing')
  }
  return new ResponseStream(delivery, opening, begun, options).respond()
}

/** Resolves to null if it takes longer than `ms`; 0 waits forever. */
async function within<T>(promise: Promise<T>, ms: number): Promise<T | null> {
  if (ms === 0) return promise
  const late = Promise.withResolvers<null>()
  const heartbeat = new Heartbeat(ms, () => late.resolve(null))
  try {
    return await Promise.race([promise, late.promise])
  } finally {
    heartbeat.stopBeating()
  }
}

const STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

class ResponseStream implements PassthroughSink {
  #writer: Writer
  #isTaken = false
  #passing: PassthroughStreamWriter | null = null
  #sink: Sink | null = null
  #isUnmet = false
  #last: AnswerEvent | null = null

  constructor(
    private readonly delivery: Delivery,
    private readonly opening: Promise<Begun>,
    private readonly begun: Begun | null,
    private readonly options: SinkOptions,
  ) {
    this.#writer = delivery.format.writer(delivery.task, delivery.identity)
    // Avoids an unhandled rejection; delivery awaits it later.
    opening.catch(() => {})
  }

  /** See `Writer`. While the request is queued, says for what. */
  get keepAlive(): string {
    const { keepAlive, headers } = this.#writer
    if (keepAlive === null) return ''
    // Only events have comments.
    const note = headers === undefined ? this.delivery.waiting.comment() : null
    return note ?? keepAlive
  }

  respond(): Response {
    const { client } = this.delivery
    // If the client disconnects before the runtime asks for the body, the request would never be settled.
    const leave = () => {
      if (!this.#isTaken) void this.#deliver(null)
    }
    client.addEventListener('abort', leave, { once: true })
    const body = new ReadableStream({
      type: 'direct',
      pull: (controller) => (this.#isTaken ? controller.close() : this.#deliver(controller)),
    })
    const own = this.#writer.headers?.(this.begun?.answer.contentType) ?? STREAM_HEADERS
    return new Response(body, { headers: Object.assign(toHeaders(this.delivery, this.begun), own) })
  }

  async #deliver(controller: ReadableStreamDirectController | null): Promise<void> {
    this.#isTaken = true
    const sink = new Sink(controller, this.delivery.signal, this.options, this)
    try {
      const begun = this.begun ?? (await this.#await(sink))
      if (begun) await this.#write(begun, sink)
    } finally {
      this.delivery.held.dispose()
      sink.close()
    }
  }

  /** The status is sent already, so an error can't change it. */
  async #await(sink: Sink): Promise<Begun | null> {
    try {
      // If the client has disconnected, the call itself notices and ends.
      await send(sink, this.keepAlive)
      return await this.opening
    } catch (error) {
      await this.#fail(sink, error, 'status')
      return null
    }
  }

  async #write({ answer, events }: Begun, sink: Sink): Promise<void> {
    const { settlement, format, identity } = this.delivery
    if (answer.isPassthrough && format.passthrough) {
      this.#passing = format.passthrough.writer(identity)
      this.#writer = this.#passing
      this.#sink = sink
    }
    const writer = this.#writer
    const take = (batch: readonly AnswerEvent[]): boolean | Promise<boolean> => {
      // The failure frame must follow from what was sent.
      if (sink.stopped !== null) throw sink.stopped
      if (isUnmet(batch)) this.#isUnmet = true
      const last = batch.at(-1)
      if (last && (last.kind === 'done' || last.kind === 'failure')) this.#last = last
      return put(sink, writer.take(batch))
    }
    try {
      settlement.firstToken()
      await take(events)
      if (this.#last === null) await answer.rest?.pump(take, this.#passing ? this : undefined)
      const last: AnswerEvent | null = this.#last
      if (last?.kind === 'failure') throw last.error
      if (last === null) throw new UpstreamError('broken', 'ended its stream before the response was complete')
      if (this.delivery.signal.aborted) throw endOf(this.delivery.signal)
      // The tail waits for the ledger.
      const receipt = await settlement.settle(toComplete(this.#isUnmet))
      await send(sink, writer.tail(receipt))
    } catch (error) {
      answer.rest?.close()
      await this.#fail(sink, error, 'answer')
    }
  }

  pass(frames: string): boolean | Promise<boolean> {
    const [sink, writer] = [this.#sink, this.#passing]
    if (sink === null || writer === null) throw new Error('not a passthrough response')
    if (sink.stopped !== null) throw sink.stopped
    return put(sink, writer.pass(frames))
  }

  async #fail(sink: Sink, cause: unknown, begun: 'status' | 'answer'): Promise<void> {
    const { settlement, signal, requestId } = this.delivery
    const error = await settleFailure(settlement, toCause(cause, signal), begun)
    error.requestId = requestId
    if (error.kind === 'client_closed') return
    const last = this.#writer.failure(error)
    if (last === null) sink.break()
    else sink.end(last)
  }
}

/** True if more may be written, or a promise if the client must read first. */
function put(sink: Sink, frames: Frames): boolean | Promise<boolean> {
  if (frames.length === 0) return true
  if (Array.isArray(frames) || frames.length > LARGE) return putLarge(sink, frames).then(goOn)
  const waiting = sink.write(frames)
  return waiting ? waiting.then(goOn) : true
}
const goOn = () => true

/** An image is one event of up to 32 MiB: written at once, it would block all other requests. */
const LARGE = 1024 * 1024
const PIECE = 256 * 1024
const TURN_MS = 8

/** If interrupted within an event, it breaks the connection: no error frame could follow. */
async function putLarge(sink: Sink, frames: Frames): Promise<void> {
  const turns = new Turns(TURN_MS)
  try {
    for (const piece of Array.isArray(frames) ? frames : [frames]) {
      for (const slice of toSlices(piece)) {
        const waiting = sink.write(slice)
        if (waiting) await waiting
        if (turns.isOver) await turns.next()
      }
      if (piece !== frames && typeof piece !== 'string') release(piece)
    }
  } catch (error) {
    sink.break()
    throw error
  }
}

function* toSlices(piece: Piece): Generator<Piece> {
  for (let at = 0; at < piece.length; ) {
    const to = Math.min(piece.length, at + PIECE)
    // Keeps surrogate pairs together.
    const end = typeof piece === 'string' && isHigh(piece.charCodeAt(to - 1)) ? to + 1 : to
    yield typeof piece === 'string' ? piece.slice(at, end) : piece.subarray(at, end)
    at = end
  }
}

const isHigh = (unit: number) => unit >= 0xd800 && unit < 0xdc00

async function send(sink: Sink, frames: Frames): Promise<void> {
  try {
    await put(sink, frames)
  } catch {
    // The next write will notice.
  }
}

/** Checks per interval: a chunk then costs an assignment instead of reading the clock. */
const LOOKS = 10

/** Heartbeats of the same interval share a timer, since there may be thousands of streams. */
const paces = new Map<number, { hearts: Set<Heartbeat>; timer: Timer }>()

/** Calls `beat` after every `ms` of silence (up to a tenth more) until stopped; 0 never does. */
export class Heartbeat {
  readonly #ms: number
  readonly #beat: () => void
  #silentLooks = 0

  constructor(ms: number, beat: () => void) {
    this.#ms = ms
    this.#beat = beat
    if (ms === 0) return
    let pace = paces.get(ms)
    if (!pace) {
      const hearts = new Set<Heartbeat>()
      pace = { hearts, timer: setInterval(lookAt, ms / LOOKS, hearts) }
      paces.set(ms, pace)
    }
    pace.hearts.add(this)
  }

  touch(): void {
    this.#silentLooks = 0
  }

  /** Idempotent. */
  stopBeating(): void {
    const pace = paces.get(this.#ms)
    if (!pace?.hearts.delete(this) || pace.hearts.size > 0) return
    clearInterval(pace.timer)
    paces.delete(this.#ms)
  }

  look(): void {
    if (++this.#silentLooks <= LOOKS) return
    this.#silentLooks = 1
    this.#beat()
  }
}

function lookAt(hearts: ReadonlySet<Heartbeat>): void {
  for (const heart of hearts) heart.look()
}

export interface SinkOptions {
  /** How long a client may leave a full buffer unread. */
  slowReaderMs: number
  /** 0 = no keep-alives. */
  heartbeatMs: number
}

interface Speaker {
  /** '' for none. */
  readonly keepAlive: string
}

type Controller = Pick<ReadableStreamDirectController, 'write' | 'flush' | 'close'>

/**
 * A direct stream with back-pressure and keep-alives. Bun buffers without limit unless the promise of a full `write` is
 * awaited (https://github.com/oven-sh/bun/issues/32469). Extends Heartbeat because each object a chunk touches costs
 * some 0.2 us.
 */
export class Sink extends Heartbeat {
  readonly #controller: Controller | null
  readonly #slowReaderMs: number
  readonly #speaker: Speaker
  #hasLeft: boolean
  /** Set when the server stops, although the client is still connected. */
  stopped: UpstreamError | null = null
  #isFull = false
  #isBroken = false
  #wake = () => {}

  /** @param controller null if the client disconnected before the first byte. */
  constructor(
    controller: Controller | null,
    signal: EndSignal,
    { slowReaderMs, heartbeatMs }: SinkOptions,
    speaker: Speaker,
  ) {
    super(controller === null ? 0 : heartbeatMs, () => this.#keepAlive())
    this.#speaker = speaker
    this.#controller = controller
    this.#slowReaderMs = slowReaderMs
    this.#hasLeft = controller === null
    const end = () => {
      if (endReasonOf(signal) === 'stopped') this.stopped = endOf(signal)
      else {
        this.#hasLeft = true
        this.stopBeating()
      }
      this.#wake()
    }
    if (signal.aborted) end()
    else if (!this.#hasLeft) signal.addEventListener('abort', end, { once: true })
  }

  /**
   * Returns a promise only if the client must read first. Throws once the client has disconnected, and a GatewayError
   * `slow_reader` if it read nothing for too long, or before the server stopped.
   */
  write(text: Piece): Promise<void> | undefined {
    this.touch()
    return this.#send(text)
  }

  /** Doesn't wait for the client. Never throws. */
  end(text: string): void {
    this.stopBeating()
    if (this.#hasLeft || this.#isBroken) return
    try {
      this.#controller?.write(text)
      this.#controller?.flush()
    } catch {}
  }

  /** Breaks the connection, so that the response doesn't look complete. Never throws. */
  break(): void {
    this.#isBroken = true
  }

  close(): void {
    this.stopBeating()
    try {
      this.#controller?.close(this.#isBroken ? new Error('interrupted') : undefined)
    } catch {
      // Already closed with the connection.
    }
  }

  #send(text: Piece): Promise<void> | undefined {
    const controller = this.#controller
    if (this.#hasLeft || controller === null) throw endedBy('disconnected')
    const written = controller.write(text)
    controller.flush()
    return typeof written === 'number' ? undefined : this.#drained(written)
  }

  async #drained(pending: Promise<number>): Promise<void> {
    this.#isFull = true
    const tooLong = new Promise<'too long'>((resolve) => {
      this.#wake = () => resolve('too long')
    })
    const timer = setTimeout(this.#wake, this.stopped === null ? this.#slowReaderMs : 0)
    let isRead = false
    try {
      isRead = (await Promise.race([pending, tooLong])) !== 'too long'
    } catch {
      this.#hasLeft = true
    } finally {
      clearTimeout(timer)
      this.#isFull = false
      this.touch()
    }
    if (this.#hasLeft) throw endedBy('disconnected')
    if (this.stopped !== null) throw this.stopped
    if (!isRead) throw tooSlow(this.#slowReaderMs)
  }

  #keepAlive(): void {
    if (this.#hasLeft || this.#isFull) return
    const { keepAlive } = this.#speaker
    if (keepAlive === '') return
    try {
      // A later rejection surfaces at the next write.
      this.#send(keepAlive)?.catch(() => {})
    } catch {
      this.#hasLeft = true
    }
  }
}

const tooSlow = (ms: number) =>
  new GatewayError('slow_reader', `Response stopped: the client read nothing for ${ms / 1000} s.`)
