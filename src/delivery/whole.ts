/** Delivers a whole answer: settled before a byte of it leaves. Streams are in `stream.ts`. */
import { type Begun, type Exchange, settleComplete, settleFailure, toHeaders } from './exchange.ts'

/**
 * Resolves to the response. Throws a GatewayError for a failure, its row already settled.
 * @param opening the answer, once all of it is there.
 */
export async function deliverWhole(exchange: Exchange, opening: Promise<Begun>): Promise<Response> {
  using _held = exchange.held
  try {
    const begun = await opening
    exchange.settlement.firstToken()
    const receipt = await settleComplete(exchange)
    const headers = toHeaders(exchange, begun)
    headers['content-type'] = 'application/json'
    return new Response(exchange.writer.whole(begun.events, receipt), { headers })
  } catch (error) {
    throw await settleFailure(exchange, error, 'nothing')
  }
}
