/**
 * Delivers an answer. A whole one is settled before a byte of it leaves. A streamed one holds the response back until the
 * answer has begun, so that a failure before it still has its real status; keeps a long silence alive; is written with
 * back-pressure; ends with a tail that waited for the ledger, or with an error frame.
 */
import type { End, Settlement } from '../accounting/settle.ts'
import { clientLeft, UpstreamError } from '../domain/error.ts'
import type { Answer, AnswerEvent } from '../domain/events.ts'
import type { Target } from '../domain/snapshot.ts'
import type { Task } from '../domain/task.ts'
import type { Format, Identity, Writer } from '../formats/format.ts'
import { settleFailure, toCause } from './failure.ts'
import { Heartbeat, KEEP_ALIVE, Sink, type SinkOptions } from './sink.ts'

/** A request on its way to its client. */
export interface Exchange {
  requestId: string
  /** What the client speaks, what it asked for, and what every object of the answer is known by. */
  format: Format
  task: Task
  identity: Identity
  settlement: Settlement
  /** The client's own signal: aborts when it leaves. */
  signal: AbortSignal
  /** Headers of every answer that are known before it: how the key's rates stand. */
  headers: Readonly<Record<string, string>>
  /**
   * What the request holds, released when all but the end of the connection's answer is done; by whoever began the
   * exchange where there is no response.
   */
  held: DisposableStack
}

/** An answer that has begun: nothing else is tried any more. */
export interface Begun {
  target: Target
  answer: Answer
  /** All that was read of it so far. */
  events: readonly AnswerEvent[]
}

/**
 * Resolves to the response: once the answer begins, or when the silence before it needs a first keep-alive. Throws a
 * GatewayError for a failure before that, its row already settled.
 */
export async function deliverStream(
  exchange: Exchange,
  opening: Promise<Begun>,
  options: SinkOptions,
): Promise<Response> {
  let begun: Begun | null
  try {
    begun = await within(opening, options.heartbeatMs)
    if (exchange.signal.aborted) {
      // Nobody gets a first byte any more: what comes is read on for its usage alone.
      const { answer } = begun ?? (await opening)
      answer.rest?.close()
      throw clientLeft()
    }
  } catch (error) {
    throw await settleFailure(exchange.settlement, toCause(error, exchange.signal), 'nothing')
  }
  return new StreamDelivery(exchange, opening, begun, options).respond()
}

/** Resolves to the value, or to null where it takes longer than `ms`; 0 waits for ever. */
async function within<T>(promise: Promise<T>, ms: number): Promise<T | null> {
  if (ms === 0) return promise
  const late = Promise.withResolvers<null>()
  const heartbeat = new Heartbeat(ms, () => late.resolve(null))
  try {
    return await Promise.race([promise, late.promise])
  } finally {
    heartbeat.stop()
  }
}

/** What a complete answer is settled as. Where the ledger has no place for that, its tail is withheld. */
const COMPLETE: End = { status: 'ok', httpStatus: 200, errorCode: null }

const STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

class StreamDelivery {
  readonly #exchange: Exchange
  readonly #opening: Promise<Begun>
  readonly #begun: Begun | null
  readonly #options: SinkOptions
  readonly #writer: Writer
  #isTaken = false
  /** The event that ended the answer. */
  #last: AnswerEvent | null = null

  constructor(exchange: Exchange, opening: Promise<Begun>, begun: Begun | null, options: SinkOptions) {
    this.#exchange = exchange
    this.#opening = opening
    this.#begun = begun
    this.#options = options
    this.#writer = exchange.format.writer(exchange.task, exchange.identity)
    // It may fail while nobody looks: whoever delivers will.
    opening.catch(() => {})
  }

  respond(): Response {
    const { signal } = this.#exchange
    // A client that leaves before the runtime asks for the body would otherwise never be settled.
    const leave = () => {
      if (!this.#isTaken) void this.#deliver(null)
    }
    signal.addEventListener('abort', leave, { once: true })
    const body = new ReadableStream({
      type: 'direct',
      pull: (controller) => (this.#isTaken ? controller.close() : this.#deliver(controller)),
    })
    return new Response(body, { headers: Object.assign(toHeaders(this.#exchange, this.#begun), STREAM_HEADERS) })
  }

  async #deliver(controller: ReadableStreamDirectController | null): Promise<void> {
    this.#isTaken = true
    const sink = new Sink(controller, this.#exchange.signal, this.#options)
    try {
      const begun = this.#begun ?? (await this.#await(sink))
      if (begun) await this.#write(begun, sink)
    } finally {
      this.#exchange.held.dispose()
      sink.close()
    }
  }

  /** The status has left already, and with it the chance to say a failure by status. */
  async #await(sink: Sink): Promise<Begun | null> {
    try {
      // A client that has left meanwhile is noticed by the call itself, which ends then.
      await send(sink, KEEP_ALIVE)
      return await this.#opening
    } catch (error) {
      await this.#fail(sink, error, 'status')
      return null
    }
  }

  async #write({ answer, events }: Begun, sink: Sink): Promise<void> {
    const { settlement } = this.#exchange
    const writer = this.#writer
    const take = (batch: readonly AnswerEvent[]): boolean | Promise<boolean> => {
      const last = batch.at(-1)
      if (last && (last.kind === 'done' || last.kind === 'failure')) this.#last = last
      const text = writer.take(batch)
      const waiting = text === '' ? undefined : sink.write(text)
      return waiting ? waiting.then(goOn) : true
    }
    try {
      settlement.firstToken()
      await take(events)
      if (this.#last === null) await answer.rest?.pump(take)
      const last: AnswerEvent | null = this.#last
      if (last?.kind === 'failure') throw last.error
      if (last === null) throw new UpstreamError('broken', 'ended its stream in the middle of the answer')
      if (this.#exchange.signal.aborted) throw clientLeft()
      // The tail waits for the ledger.
      const receipt = await settlement.settle(COMPLETE)
      await send(sink, writer.tail(receipt))
    } catch (error) {
      answer.rest?.close()
      await this.#fail(sink, error, 'answer')
    }
  }

  /** Settles an answer that broke off, and says so: an error frame, and no end that looks like one. */
  async #fail(sink: Sink, cause: unknown, begun: 'status' | 'answer'): Promise<void> {
    const { settlement, signal } = this.#exchange
    const error = await settleFailure(settlement, toCause(cause, signal), begun)
    if (error.kind !== 'client_closed') sink.end(this.#writer.failure(error))
  }
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

/**
 * Resolves to the response. Throws a GatewayError for a failure, its row already settled.
 * @param opening the answer, once all of it is there.
 */
export async function deliverWhole(exchange: Exchange, opening: Promise<Begun>): Promise<Response> {
  try {
    const begun = await opening
    // It was read on for its usage alone.
    if (exchange.signal.aborted) throw clientLeft()
    exchange.settlement.firstToken()
    const receipt = await exchange.settlement.settle(COMPLETE)
    const headers = toHeaders(exchange, begun)
    headers['content-type'] = 'application/json'
    const json = exchange.format.whole(exchange.identity, begun.events, receipt)
    exchange.held.dispose()
    return new Response(json, { headers })
  } catch (error) {
    throw await settleFailure(exchange.settlement, toCause(error, exchange.signal), 'nothing')
  }
}

/** Headers of every answer: the receipt, as far as it is known when the first byte leaves. */
function toHeaders({ requestId, headers, settlement }: Exchange, begun: Begun | null): Record<string, string> {
  const all: Record<string, string> = { 'x-request-id': requestId, ...headers }
  if (begun === null) return all
  all['x-tollgate-upstream'] = begun.target.upstream.id
  all['x-tollgate-attempts'] = String(settlement.attempts)
  if (begun.answer.schema) all['x-tollgate-schema'] = begun.answer.schema
  return all
}
