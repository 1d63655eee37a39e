/**
 * Carries a streamed answer: holds it back until the commit point, so that a failure before it still has its real
 * status; keeps a long silence alive with heartbeats; pumps with back-pressure; ends with a tail that waited for the
 * ledger, or with an error frame.
 */

import type { AnswerEvent } from '../domain/answer.ts'
import { UpstreamError } from '../domain/error.ts'
import { createStreamNormaliser, errorFrame, type StreamNormaliser } from '../formats/chat/normalise.ts'
import { eventsOf } from './events.ts'
import { createHeartbeat, KEEP_ALIVE } from './heartbeat.ts'
import { CLOSED_SINK, createSink, type Sink } from './sink.ts'
import { headersOf, type RelayInput, settleComplete, settleFailure, shapeOf, type Trip } from './trip.ts'

/** An answer that has reached the commit point. */
interface Opened {
  trip: Trip
  normaliser: StreamNormaliser
  iterator: AsyncIterator<AnswerEvent[]>
  /** The frames so far. */
  first: string
}

/** Resolves to the response: once the answer begins, or when the silence before it needs a first heartbeat. */
export async function relayStream(input: RelayInput): Promise<Response> {
  let handedOver = false
  try {
    const opening = input.attempt((answer, target) => open({ input, answer, target }))
    const opened = await within(opening, input.heartbeatMs)
    const response = respond(input, opening, opened)
    handedOver = true
    return response
  } catch (error) {
    throw await settleFailure(input, error, 'nothing')
  } finally {
    if (!handedOver) input.onEnd()
  }
}

/** Reads an answer up to its commit point. Throws what it failed with before: another target may do better. */
async function open(trip: Trip): Promise<Opened> {
  const normaliser = createStreamNormaliser(shapeOf(trip))
  const iterator = eventsOf(trip.answer)[Symbol.asyncIterator]()
  let first = ''
  try {
    while (!normaliser.committed() && normaliser.outcome() === null) {
      const { done, value } = await iterator.next()
      if (done) break
      first += normaliser.take(value)
    }
  } catch (error) {
    await iterator.return?.()
    throw error
  }
  const early = normaliser.outcome()
  if (early instanceof UpstreamError && !normaliser.committed()) throw early
  trip.input.settlement.firstToken()
  return { trip, normaliser, iterator, first }
}

/** Resolves to the value, or to null where it takes longer than `ms`; 0 waits for ever. */
async function within<T>(promise: Promise<T>, ms: number): Promise<T | null> {
  if (ms === 0) return promise
  const late = Promise.withResolvers<null>()
  const heartbeat = createHeartbeat(ms, () => late.resolve(null))
  try {
    return await Promise.race([promise, late.promise])
  } finally {
    heartbeat.stop()
  }
}

function respond(input: RelayInput, opening: Promise<Opened>, opened: Opened | null): Response {
  // It may fail while nobody looks: whoever delivers will.
  opening.catch(() => {})
  let begun = false
  const deliver = async (sink: Sink) => {
    begun = true
    try {
      if (opened) await pump(opened, sink)
      else await pumpLate(input, opening, sink)
    } finally {
      input.onEnd()
      sink.close()
    }
  }
  // A client that leaves before the runtime asks for the body would otherwise never be settled.
  const leave = () => {
    if (!begun) void deliver(CLOSED_SINK)
  }
  if (input.signal.aborted) leave()
  else input.signal.addEventListener('abort', leave, { once: true })
  const { heartbeatMs, slowReaderMs } = input
  const body = new ReadableStream({
    type: 'direct',
    pull: (controller) =>
      begun ? controller.close() : deliver(createSink(controller, input.signal, { heartbeatMs, slowReaderMs })),
  })
  const headers = opened ? headersOf(opened.trip) : { 'x-request-id': input.requestId, ...input.headers }
  return new Response(body, { headers: Object.assign(headers, STREAM_HEADERS) })
}

const STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

/** The status has left already, and with it the chance to say a failure by status. */
async function pumpLate(input: RelayInput, opening: Promise<Opened>, sink: Sink): Promise<void> {
  let opened: Opened
  try {
    // A client that has left meanwhile is noticed by the call itself, which ends then.
    await send(sink, KEEP_ALIVE)
    opened = await opening
  } catch (error) {
    return tell(input, sink, error, 'status')
  }
  await pump(opened, sink)
}

async function pump({ trip, normaliser, iterator, first }: Opened, sink: Sink): Promise<void> {
  try {
    if (first !== '') await sink.write(first)
    while (normaliser.outcome() === null) {
      const { done, value } = await iterator.next()
      if (done) break
      const text = normaliser.take(value)
      if (text !== '') {
        const waiting = sink.write(text)
        if (waiting) await waiting
      }
    }
    const failure = normaliser.outcome()
    if (failure instanceof UpstreamError) throw failure
    // The tail waits for the ledger.
    const usageJson = await settleComplete(trip.input)
    await send(sink, normaliser.tail(usageJson))
  } catch (error) {
    await iterator.return?.()
    await tell(trip.input, sink, error, 'answer')
  }
}

/** Settles an answer that broke off, and says so: an error frame, no `[DONE]` (promise 5). */
async function tell(input: RelayInput, sink: Sink, cause: unknown, begun: 'status' | 'answer'): Promise<void> {
  const error = await settleFailure(input, cause, begun)
  if (error.kind !== 'client_closed') sink.end(errorFrame(error.toBody()))
}

/** Writes to a client that may have left, or never read it. */
async function send(sink: Sink, text: string): Promise<void> {
  try {
    await sink.write(text)
  } catch {
    // What comes next will notice.
  }
}
