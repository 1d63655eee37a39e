/** A request on its way to its client: what both ways of delivering an answer know, and how they end it. */
import type { End, Settlement } from '../accounting/settle.ts'
import { GatewayError } from '../domain/error.ts'
import type { Answer, AnswerEvent } from '../domain/events.ts'
import type { Target } from '../domain/snapshot.ts'
import type { Receipt } from '../domain/usage.ts'
import type { Writer } from '../formats/format.ts'
import { toGatewayError, toReason } from './failure.ts'

export interface Exchange {
  requestId: string
  writer: Writer
  settlement: Settlement
  /** The client's own signal: aborts when it leaves. */
  signal: AbortSignal
  /** Headers of every answer that are known before it: how the key's rates stand. */
  headers: Readonly<Record<string, string>>
  /** What the request holds, released when all but the end of the connection's answer is done. */
  held: DisposableStack
}

/** An answer that has begun: nothing else is tried any more. */
export interface Begun {
  target: Target
  answer: Answer
  /** All that was read of it so far. */
  events: readonly AnswerEvent[]
}

/** Headers of every answer: the receipt, as far as it is known when the first byte leaves. */
export function toHeaders({ requestId, headers, settlement }: Exchange, begun: Begun | null): Record<string, string> {
  const all: Record<string, string> = { 'x-request-id': requestId, ...headers }
  if (begun === null) return all
  all['x-tollgate-upstream'] = begun.target.upstream.id
  all['x-tollgate-attempts'] = String(settlement.attempts)
  if (begun.answer.schema) all['x-tollgate-schema'] = begun.answer.schema
  return all
}

const COMPLETE: End = { status: 'ok', httpStatus: 200, errorCode: null }

/** Settles a complete answer. Throws `ledger_unavailable`: its tail is withheld. */
export const settleComplete = ({ settlement }: Exchange): Promise<Receipt> => settlement.settle(COMPLETE)

/**
 * Settles a request that came to no good end, and returns what its client is told.
 * @param begun whether something of the answer has left, or at least its status has.
 */
export async function settleFailure(
  { settlement }: Exchange,
  cause: unknown,
  begun: 'nothing' | 'status' | 'answer',
): Promise<GatewayError> {
  const error = toGatewayError(cause, settlement.upstream)
  const isCut = begun === 'answer' || error.kind === 'client_closed'
  try {
    await settlement.settle({
      status: isCut ? 'cut' : 'failed',
      httpStatus: begun === 'nothing' ? error.status : 200,
      errorCode: error.code ?? error.kind,
      reason: toReason(cause),
      // No response tells of it any more, so that the log has to.
      ...(begun !== 'nothing' && error.kind === 'internal' ? { mistake: error.cause } : {}),
    })
  } catch (unsettled) {
    // The ledger keeps what it could not place and has logged why.
    if (!(unsettled instanceof GatewayError)) throw unsettled
    return begun === 'nothing' ? unsettled : error
  }
  return error
}
