/**
 * Delivers a streamed answer: holds the response back until the answer has begun, so that a failure before it still has its real
 * status; keeps a long silence alive; writes with back-pressure; ends with a tail that waited for the ledger, or with an
 * error frame.
 */
import { endOf, UpstreamError } from '../domain/error.ts'
import type { AnswerEvent, PassthroughSink } from '../domain/events.ts'
import type { PassingWriter, Writer } from '../formats/format.ts'
import { type Begun, type Delivery, isUnmet, settleFailure, toCause, toComplete, toHeaders } from './delivery.ts'
import { Heartbeat, Sink, type SinkOptions } from './sink.ts'

/**
 * Resolves to the response: once the answer begins, or when the silence before it needs a first keep-alive. Throws a
 * GatewayError for a failure before that, its row already settled.
 */
export async function deliverStream(
  delivery: Delivery,
  opening: Promise<Begun>,
  options: SinkOptions,
): Promise<Response> {
  let begun: Begun | null
  try {
    begun = await within(opening, options.heartbeatMs)
    if (delivery.signal.aborted) {
      // Nobody gets a first byte any more: what comes is read on for its usage alone.
      const { answer } = begun ?? (await opening)
      answer.rest?.close()
      throw endOf(delivery.signal)
    }
  } catch (error) {
    throw await settleFailure(delivery.settlement, toCause(error, delivery.signal), 'nothing')
  }
  return new ResponseStream(delivery, opening, begun, options).respond()
}

/** Resolves to the value, or to null where it takes longer than `ms`; 0 waits for ever. */
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
  /** What writes an answer that passes as it came, and to where; null for any other. */
  #passing: PassingWriter | null = null
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
    // It may fail while nobody looks: whoever delivers will.
    opening.catch(() => {})
  }

  /** See `Writer`. While the request waits for something, also for what. */
  get keepAlive(): string {
    return this.delivery.waiting.comment() ?? this.#writer.keepAlive
  }

  respond(): Response {
    const { client } = this.delivery
    // A client that leaves before the runtime asks for the body would otherwise never be settled.
    const leave = () => {
      if (!this.#isTaken) void this.#deliver(null)
    }
    client.addEventListener('abort', leave, { once: true })
    const body = new ReadableStream({
      type: 'direct',
      pull: (controller) => (this.#isTaken ? controller.close() : this.#deliver(controller)),
    })
    return new Response(body, { headers: Object.assign(toHeaders(this.delivery, this.begun), STREAM_HEADERS) })
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

  /** The status has left already, and with it the chance to say a failure by status. */
  async #await(sink: Sink): Promise<Begun | null> {
    try {
      // A client that has left meanwhile is noticed by the call itself, which ends then.
      await send(sink, this.keepAlive)
      return await this.opening
    } catch (error) {
      await this.#fail(sink, error, 'status')
      return null
    }
  }

  async #write({ answer, events }: Begun, sink: Sink): Promise<void> {
    const { settlement, format, identity } = this.delivery
    if (answer.isNative && format.native) {
      this.#passing = format.native.writer(identity)
      this.#writer = this.#passing
      this.#sink = sink
    }
    const writer = this.#writer
    const take = (batch: readonly AnswerEvent[]): boolean | Promise<boolean> => {
      // What the writer has written has left: its last words follow from that.
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
      if (last === null) throw new UpstreamError('broken', 'ended its stream in the middle of the answer')
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
    if (sink === null || writer === null) throw new Error('nothing passes here')
    if (sink.stopped !== null) throw sink.stopped
    return put(sink, writer.pass(frames))
  }

  /** Settles an answer that broke off, and says so: an error frame, and no end that looks like one. */
  async #fail(sink: Sink, cause: unknown, begun: 'status' | 'answer'): Promise<void> {
    const { settlement, signal, requestId } = this.delivery
    const error = await settleFailure(settlement, toCause(cause, signal), begun)
    error.requestId = requestId
    if (error.kind !== 'client_closed') sink.end(this.#writer.failure(error))
  }
}

/** Writes what there is to write. Returns whether more may come, or a promise where the client must read first. */
function put(sink: Sink, text: string): boolean | Promise<boolean> {
  const waiting = text === '' ? undefined : sink.write(text)
  return waiting ? waiting.then(goOn) : true
}
const goOn = () => true

/** Writes to a client that may have left, or never read it. */
async function send(sink: Sink, text: string): Promise<void> {
  try {
    await sink.write(text)
  } catch {
    // What comes next will notice.
  }
}
