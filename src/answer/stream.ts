/**
 * Carries a streamed answer: holds it back until the commit point, pumps it with back-pressure, and ends it with a tail
 * that waited for the ledger, or with an error frame.
 */
import { GatewayError, UpstreamError } from '../error.ts'
import type { AnswerEvent } from '../wire/chat.ts'
import type { Usage } from '../wire/usage.ts'
import { toGatewayError } from './failure.ts'
import { createStreamNormaliser, errorFrame, type StreamNormaliser } from './normalise.ts'
import { CLOSED_SINK, createSink, type Sink } from './sink.ts'
import { estimateOf, headersOf, settleComplete, type Trip } from './trip.ts'

/** Waits for the commit point, so that a failure before it still has its real status, then begins the answer. */
export async function relayStream(trip: Trip, events: AsyncIterable<AnswerEvent[]>): Promise<Response> {
  const normaliser = createStreamNormaliser(trip.shape)
  const iterator = events[Symbol.asyncIterator]()
  let first = ''
  while (!normaliser.committed() && normaliser.outcome() === null) {
    const { done, value } = await iterator.next()
    if (done) break
    first += normaliser.take(value)
  }
  const early = normaliser.outcome()
  if (early instanceof UpstreamError && !normaliser.committed()) throw early
  trip.settlement.firstToken()
  let begun = false
  const deliver = async (sink: Sink) => {
    begun = true
    try {
      await pump(trip, normaliser, iterator, sink, first)
    } finally {
      trip.onEnd()
      sink.close()
    }
  }
  // A client that leaves before the runtime asks for the body would otherwise never be settled.
  const leave = () => {
    if (!begun) void deliver(CLOSED_SINK)
  }
  if (trip.signal.aborted) leave()
  else trip.signal.addEventListener('abort', leave, { once: true })
  const body = new ReadableStream({
    type: 'direct',
    pull: (controller) => (begun ? controller.close() : deliver(createSink(controller, trip.signal))),
  })
  return new Response(body, {
    headers: {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      ...headersOf(trip),
    },
  })
}

async function pump(
  trip: Trip,
  normaliser: StreamNormaliser,
  iterator: AsyncIterator<AnswerEvent[]>,
  sink: Sink,
  first: string,
): Promise<void> {
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
    const usageJson = await settleComplete(trip, normaliser.usage(), normaliser.sizes())
    await sink.write(normaliser.tail(usageJson))
  } catch (error) {
    await iterator.return?.()
    await cut(trip, normaliser, sink, error)
  }
}

/** Settles an answer that broke off after it had begun, and says so: an error frame, no `[DONE]` (promise 5). */
async function cut(trip: Trip, normaliser: StreamNormaliser, sink: Sink, cause: unknown): Promise<void> {
  const error = toGatewayError(cause, trip.upstream)
  try {
    await trip.settlement.settle({
      status: 'cut',
      httpStatus: 200,
      errorCode: error.code ?? error.kind,
      usage: toLarger(normaliser.usage(), estimateOf(trip, normaliser.sizes())),
      estimated: true,
      attempts: trip.attempts,
      upstreamRequestId: trip.upstreamRequestId,
      ...(error.kind === 'internal' ? { mistake: error.cause } : {}),
    })
  } catch (unsettled) {
    // The ledger keeps what it could not place and has logged why; the client learns of the cut either way.
    if (!(unsettled instanceof GatewayError)) throw unsettled
  }
  if (error.kind === 'client_closed') return
  try {
    await sink.write(errorFrame(error.toBody()))
  } catch {
    // The client left while its stream was breaking.
  }
}

/** Of a cut answer the larger figure counts: some upstreams report usage first when nearly nothing is written. */
function toLarger(reported: Usage | null, estimated: Usage): Usage {
  if (!reported) return estimated
  return {
    ...reported,
    prompt: reported.prompt || estimated.prompt,
    completion: Math.max(reported.completion, estimated.completion),
    reasoning: Math.max(reported.reasoning, estimated.reasoning),
  }
}
