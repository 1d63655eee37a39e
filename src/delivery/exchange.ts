/**
 * A request on its way to its client: what both ways of delivering an answer know, how they end it, and what its client is
 * told where it failed: the failure's kind, and with that its status, type and code.
 */
import type { End, Settlement } from '../accounting/settle.ts'
import { GatewayError, internalError, toRetryAfter, UpstreamError } from '../domain/error.ts'
import type { Answer, AnswerEvent } from '../domain/events.ts'
import type { Target } from '../domain/snapshot.ts'
import type { Task } from '../domain/task.ts'
import type { Receipt } from '../domain/usage.ts'
import type { Format, Identity } from '../formats/format.ts'
import { blamesTheRequest, toRefusal } from '../upstreams/failure.ts'

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

/** A code is stored and logged: an upstream's may not be longer than this. */
const MAX_CODE_CHARS = 64
/** A client is told to wait so long where the upstream does not say. */
const WAIT_MS = 5_000

/** Why an upstream's call failed, for the log: nothing of what it said. Null where the code tells all. */
export function toReason(error: unknown): string | null {
  if (!(error instanceof UpstreamError) || error.kind === 'aborted') return null
  const { kind, status, deadline } = error
  if (kind === 'status') return `status ${status}`
  return kind === 'deadline' ? `deadline ${deadline}` : kind
}

/** @param lastUpstream the id of the upstream that was tried last, for a failure that does not say whose it is. */
export function toGatewayError(error: unknown, lastUpstream = ''): GatewayError {
  if (error instanceof GatewayError) return error
  if (!(error instanceof UpstreamError)) return internalError(error)
  const { kind, status, retryAfterMs } = error
  const upstream = error.upstream ?? lastUpstream
  const retryAfter = { 'retry-after': toRetryAfter(retryAfterMs ?? WAIT_MS) }
  if (kind === 'aborted') return new GatewayError('client_closed', 'The client left before the answer was complete.')
  if (kind === 'deadline') {
    return new GatewayError('upstream_timeout', `Upstream \`${upstream}\` took too long: ${error.message}.`)
  }
  if (kind === 'status' && status !== null && blamesTheRequest(status)) {
    return new GatewayError('upstream_rejected', error.message, {
      status,
      code: error.code?.slice(0, MAX_CODE_CHARS) ?? null,
      param: error.param,
    })
  }
  if (status === 429) {
    return new GatewayError(
      'upstream_rate_limited',
      `Upstream \`${upstream}\` takes no more for now: ${error.message}`,
      // What does not fit into an upstream's limits at all will not fit later either.
      { headers: error.retryable ? retryAfter : { 'x-should-retry': 'false' } },
    )
  }
  if (status === 503 || status === 529) {
    return new GatewayError('overloaded', `Upstream \`${upstream}\` is overloaded (it answered ${status}).`, {
      headers: retryAfter,
    })
  }
  const what = kind === 'status' ? `answered ${status}` : error.message
  const why = kind === 'status' && status !== null ? toRefusal(status)?.why : undefined
  if (why === undefined) return new GatewayError('upstream_failed', `Upstream \`${upstream}\` ${what}.`)
  // What is set up wrongly stays wrong: a client that tries again only waits longer.
  const headers = { 'x-should-retry': 'false' }
  return new GatewayError('upstream_failed', `Upstream \`${upstream}\` ${what}: ${why}.`, { headers })
}
