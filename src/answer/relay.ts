/**
 * Carries an answer from a pending attempt to the client. Settles the request exactly once, whatever happens, and lets
 * the tail of the answer go only after that (promise 2). Streams are in `stream.ts`.
 */
import { GatewayError } from '../error.ts'
import type { BackendAnswer } from '../wire/chat.ts'
import { NO_USAGE } from '../wire/usage.ts'
import { toGatewayError } from './failure.ts'
import { toCompletion, toCompletionJson } from './normalise.ts'
import { relayStream } from './stream.ts'
import { estimateOf, headersOf, type RelayInput, settleComplete, type Trip } from './trip.ts'

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

async function relayWhole(trip: Trip, answer: BackendAnswer & { kind: 'whole' }): Promise<Response> {
  const { answer: completion, sizes } = toCompletion(trip.shape, answer.completion)
  trip.settlement.firstToken()
  const usageJson = await settleComplete(trip, answer.usage ?? null, sizes)
  return new Response(toCompletionJson(completion, usageJson), {
    headers: { 'content-type': 'application/json', ...headersOf(trip) },
  })
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
