/** Delivers a whole answer: it is settled before a byte of it leaves. */
import { clientLeft } from '../domain/error.ts'
import { type Begun, type Delivery, isUnmet, toComplete, toHeaders } from './delivery.ts'
import { settleFailure, toCause } from './failure.ts'
import { joinInTurns } from './in-turns.ts'

/**
 * Resolves to the response. Throws a GatewayError for a failure, its row already settled.
 * @param opening the answer, once all of it is there.
 */
export async function deliverWhole(delivery: Delivery, opening: Promise<Begun>): Promise<Response> {
  try {
    const begun = await opening
    // It was read on for its usage alone. One that comes while the server stops still finds its client.
    if (delivery.client.aborted) throw clientLeft()
    delivery.settlement.firstToken()
    const receipt = await delivery.settlement.settle(toComplete(isUnmet(begun.events)))
    const headers = toHeaders(delivery, begun)
    headers['content-type'] = 'application/json'
    const { format, task, identity } = delivery
    const { answer, events } = begun
    const written =
      answer.isNative && format.native
        ? format.native.whole(identity, events)
        : format.whole(task, identity, events, receipt)
    const json = typeof written === 'string' ? written : await joinInTurns(written)
    delivery.held.dispose()
    return new Response(json, { headers })
  } catch (error) {
    throw await settleFailure(delivery.settlement, toCause(error, delivery.signal), 'nothing')
  }
}
