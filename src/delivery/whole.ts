/**
 * Carries an answer from a pending attempt to the client. Settles the request exactly once, whatever happens, and lets
 * the tail of the answer go only after that (promise 2). Streams are in `stream.ts`.
 */

import { toCompletion, toCompletionJson } from '../formats/chat/normalise.ts'
import { asWhole } from './events.ts'
import { relayStream } from './stream.ts'
import { headersOf, type RelayInput, settleComplete, settleFailure, shapeOf, type Trip } from './trip.ts'

/** Resolves to the response. Throws a GatewayError for a failure before it has begun, its row already settled. */
export async function relay(input: RelayInput): Promise<Response> {
  if (input.stream) return relayStream(input)
  try {
    return await relayWhole(input)
  } catch (error) {
    throw await settleFailure(input, error, 'nothing')
  } finally {
    input.onEnd()
  }
}

async function relayWhole(input: RelayInput): Promise<Response> {
  const { trip, completion } = await input.attempt((answer, target) => {
    const trip: Trip = { input, answer, target }
    return { trip, completion: toCompletion(shapeOf(trip), asWhole(answer).completion) }
  })
  input.settlement.firstToken()
  const usageJson = await settleComplete(input)
  const headers = headersOf(trip)
  headers['content-type'] = 'application/json'
  return new Response(toCompletionJson(completion, usageJson), { headers })
}
