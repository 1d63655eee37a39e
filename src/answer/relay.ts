/**
 * Carries an answer from a pending attempt to the client: whole, or as a stream with back-pressure. It settles the
 * request exactly once, whatever happens, and lets the tail of the answer go only after that (promise 2).
 */
import { GatewayError, UpstreamError } from '../error.ts'
import type { AnswerEvent, BackendAnswer } from '../wire/chat.ts'
import { NO_USAGE, toUsageJson, type Usage } from '../wire/usage.ts'
import { estimateUsage } from './count.ts'
import { toGatewayError } from './failure.ts'
import {
  createStreamNormaliser,
  errorFrame,
  type Identity,
  type Sizes,
  type StreamNormaliser,
  toCompletion,
  toCompletionJson,
} from './normalise.ts'
import type { Settlement } from './settlement.ts'
import { CLOSED_SINK, createSink, type Sink } from './sink.ts'

export interface RelayInput {
  identity: Identity
  requestId: string
  stream: boolean
  includeUsage: boolean
  /** What the prompt was estimated at, for a bill without the upstream's own count. */
  promptTokens: number
  /** The upstream that is tried first: named where the attempt fails. */
  upstream: string
  attempt: Promise<{ answer: BackendAnswer; target: { upstream: { id: string } }; attempts: number }>
  settlement: Settlement
  /** The client's own signal: aborts when it leaves. */
  signal: AbortSignal
  /** Called once, when all but the end of the connection's answer is done. */
  onEnd(): void
}

/** Resolves to the response. Throws a GatewayError for a failure before the commit point, its row already settled. */
export async function relay(input: RelayInput): Promise<Response> {
  let handedOver = false
  try {
    const { answer, target, attempts } = await input.attempt
    const trip: Trip = { ...input, upstream: target.upstream.id, attempts, upstreamRequestId: answer.upstreamRequestId }
    if (answer.kind === 'whole') return await relayWhole(trip, answer)
    const response = await relayStream(trip, answer.events)
    handedOver = true
    return response
  } catch (error) {
    throw await settleFailure(input, error)
  } finally {
    if (!handedOver) input.onEnd()
  }
}

interface Trip extends RelayInput {
  attempts: number
  upstreamRequestId: string | undefined
}

const headersOf = (trip: Trip) => ({
  'x-request-id': trip.requestId,
  'x-tollgate-upstream': trip.upstream,
  'x-tollgate-attempts': String(trip.attempts),
})

async function relayWhole(trip: Trip, answer: BackendAnswer & { kind: 'whole' }): Promise<Response> {
  const { answer: completion, sizes } = toCompletion(trip.identity, answer.completion)
  const usage = answer.usage ?? estimateOf(trip, sizes)
  trip.settlement.firstToken()
  const cost = await trip.settlement.settle({
    status: 'ok',
    httpStatus: 200,
    errorCode: null,
    usage,
    estimated: answer.usage === undefined,
    attempts: trip.attempts,
    upstreamRequestId: trip.upstreamRequestId,
  })
  return new Response(toCompletionJson(completion, toUsageJson(usage, cost)), {
    headers: { 'content-type': 'application/json', ...headersOf(trip) },
  })
}

/** Waits for the commit point, so that a failure before it still has its real status, then begins the answer. */
async function relayStream(trip: Trip, events: AsyncIterable<AnswerEvent[]>): Promise<Response> {
  const normaliser = createStreamNormaliser(trip.identity, trip.includeUsage)
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
    await finish(trip, normaliser, sink)
  } catch (error) {
    await iterator.return?.()
    await cut(trip, normaliser, sink, error)
  }
}

/** Settles a complete answer, then lets its tail go. */
async function finish(trip: Trip, normaliser: StreamNormaliser, sink: Sink): Promise<void> {
  const reported = normaliser.usage()
  const usage = reported ?? estimateOf(trip, normaliser.sizes())
  const cost = await trip.settlement.settle({
    status: 'ok',
    httpStatus: 200,
    errorCode: null,
    usage,
    estimated: reported === null,
    attempts: trip.attempts,
    upstreamRequestId: trip.upstreamRequestId,
  })
  await sink.write(normaliser.tail(toUsageJson(usage, cost)))
}

/** Settles an answer that broke off after it had begun, and says so: an error frame, no `[DONE]` (promise 5). */
async function cut(trip: Trip, normaliser: StreamNormaliser, sink: Sink, cause: unknown): Promise<void> {
  const error = toGatewayError(cause, trip.upstream)
  try {
    await trip.settlement.settle({
      status: 'cut',
      httpStatus: 200,
      errorCode: error.code ?? error.kind,
      usage: normaliser.usage() ?? estimateOf(trip, normaliser.sizes()),
      estimated: true,
      attempts: trip.attempts,
      upstreamRequestId: trip.upstreamRequestId,
      ...(error.kind === 'internal' ? { mistake: error.cause } : {}),
    })
  } catch {
    // The ledger keeps what it could not place and has logged why; the client learns of the cut either way.
  }
  if (error.kind === 'client_closed') return
  try {
    await sink.write(errorFrame(error.toBody()))
  } catch {
    // The client left while its stream was breaking.
  }
}

/** Settles a request that delivered nothing, and returns what its client is told. */
async function settleFailure(input: RelayInput, cause: unknown): Promise<GatewayError> {
  const error = toGatewayError(cause, input.upstream)
  const left = error.kind === 'client_closed'
  try {
    await input.settlement.settle({
      status: left ? 'cut' : 'failed',
      httpStatus: error.status,
      errorCode: error.code ?? error.kind,
      usage: left ? estimateOf(input, { answer: 0, reasoning: 0 }) : NO_USAGE,
      estimated: left,
      attempts: 1,
    })
  } catch (unsettled) {
    if (unsettled instanceof GatewayError) return unsettled
    throw unsettled
  }
  return error
}

const estimateOf = ({ promptTokens }: RelayInput, sizes: Sizes): Usage =>
  estimateUsage(promptTokens, sizes.answer, sizes.reasoning)
