/**
 * An answer that came to no good end: how both ways of delivering one settle it, and what its client is told: the failure's
 * kind, and with that its status, type and code.
 */
import type { Settlement } from '../accounting/settle.ts'
import type { EndReason, EndSignal } from '../domain/end-signal.ts'
import { endOf, GatewayError, internalError, LOOP_STATUS, toRetryAfter, UpstreamError } from '../domain/error.ts'
import { blamesTheRequest, whyRefused } from '../upstreams/failure.ts'

/**
 * Settles a request that came to no good end, and returns what its client is told.
 * @param begun whether something of the answer has left, or at least its status has.
 */
export async function settleFailure(
  settlement: Settlement,
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

/**
 * Why an answer ended: whatever becomes of it once the client has left or the server stops, that this is so; but a mistake of ours
 * is told.
 * @param signal the request's.
 */
export const toCause = (error: unknown, signal: EndSignal): unknown =>
  signal.aborted && (error instanceof UpstreamError || error instanceof GatewayError) ? endOf(signal) : error

/** A client is told to wait so long where the upstream does not say. */
const WAIT_MS = 5_000

/** Why an upstream's call failed, for the log: nothing of what it said. Null where the code tells all. */
function toReason(error: unknown): string | null {
  if (!(error instanceof UpstreamError) || error.kind === 'aborted') return null
  const { kind, status, deadline } = error
  if (kind === 'status') return `status ${status}`
  return kind === 'deadline' ? `deadline ${deadline}` : kind
}

/** What a client is told of an answer that was ended here. */
const ENDED: Readonly<Record<EndReason, (error: UpstreamError, upstream: string) => GatewayError>> = {
  disconnected: clientClosed,
  superseded: clientClosed,
  stopped: () =>
    new GatewayError('stopped', 'The server stopped before the answer was complete. Try again.', {
      headers: { connection: 'close' },
    }),
  deadline: ({ deadline, message, retryAfterMs }, upstream) =>
    deadline === 'queue'
      ? new GatewayError(
          'overloaded',
          `Tollgate queued the request for upstream \`${upstream}\`, and ${message}. The request was not sent to the model. Try again later.`,
          { headers: toWait(retryAfterMs) },
        )
      : new GatewayError('upstream_timeout', `Upstream \`${upstream}\` took too long: ${message}.`),
}

function clientClosed(): GatewayError {
  return new GatewayError('client_closed', 'The client left before the answer was complete.')
}

const toWait = (retryAfterMs: number | null) => ({ 'retry-after': toRetryAfter(retryAfterMs ?? WAIT_MS) })

/** @param lastUpstream the id of the upstream that was tried last, for a failure that does not say whose it is. */
export function toGatewayError(error: unknown, lastUpstream = ''): GatewayError {
  if (error instanceof GatewayError) return error
  if (!(error instanceof UpstreamError)) return internalError(error)
  const { kind, status, retryAfterMs, end } = error
  const upstream = error.upstream ?? lastUpstream
  if (end !== null) return ENDED[end](error, upstream)
  const retryAfter = toWait(retryAfterMs)
  if (kind === 'status' && status !== null && blamesTheRequest(status)) {
    return new GatewayError('upstream_rejected', error.message, {
      status,
      code: error.code,
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
  const why = kind === 'status' ? whyRefused(error) : null
  if (why === null) return new GatewayError('upstream_failed', `Upstream \`${upstream}\` ${what}.`)
  // The next Tollgate in a loop must know it, too.
  if (status === LOOP_STATUS)
    return new GatewayError(
      'loop_detected',
      `Upstream \`${upstream}\` ${what}: ${why}. Correct that base_url, or those of the server behind it.`,
    )
  // What is set up wrongly stays wrong: a client that tries again only waits longer.
  const headers = { 'x-should-retry': 'false' }
  return new GatewayError('upstream_failed', `Upstream \`${upstream}\` ${what}: ${why}.`, { headers })
}
