/** A request on its way to its client, what all of its answers have in common, and whole answers, settled before a byte of one leaves. */
import type { End, Settlement } from '../accounting/settle.ts'
import type { EndReason, EndSignal } from '../domain/end-signal.ts'
import {
  endedBy,
  endOf,
  GatewayError,
  internalError,
  LOOP_STATUS,
  toRetryAfter,
  UpstreamError,
} from '../domain/error.ts'
import type { Answer, AnswerEvent } from '../domain/events.ts'
import type { Target } from '../domain/snapshot.ts'
import type { Task } from '../domain/task.ts'
import type { Format, Identity } from '../formats/format.ts'
import { blamesTheRequest, whyRefused } from '../upstreams/failure.ts'

/** After so long others have their turn. */
const TURN_MS = 8

/** Joins the pieces of a text, each of which takes a moment to make. */
async function joinInTurns(pieces: Iterable<string>): Promise<string> {
  const made: string[] = []
  let sinceMs = performance.now()
  for (const piece of pieces) {
    made.push(piece)
    if (performance.now() - sinceMs < TURN_MS) continue
    await new Promise((resolve) => setImmediate(resolve))
    sinceMs = performance.now()
  }
  return made.join('')
}

export class QueueNote {
  #note: (() => string) | null = null

  /** @param note says it as of now; null where it waits no more. */
  set = (note: (() => string) | null): void => {
    this.#note = note
  }

  /** As a comment of a stream of server-sent events; null where it waits for nothing. */
  comment(): string | null {
    return this.#note && `: ${this.#note()}\n\n`
  }
}

export interface Delivery {
  requestId: string
  /** What the client speaks, what it asked for, and what every object of the answer is known by. */
  format: Format
  task: Task
  identity: Identity
  settlement: Settlement
  signal: EndSignal
  /** The client's own signal: aborts when it leaves. */
  client: AbortSignal
  /** Headers of every answer that are known before it: how the key's rates stand. */
  headers: Readonly<Record<string, string>>
  /** What it waits for before its answer begins. */
  waiting: Pick<QueueNote, 'comment'>
  /**
   * What the request holds, released when all but the end of the connection's answer is done; by whoever began the
   * delivery where there is no response.
   */
  held: DisposableStack
}

/** An answer that has begun: nothing else is tried any more. */
export interface Begun {
  target: Target
  answer: Answer
  /** All that was read of it so far. */
  events: readonly AnswerEvent[]
}

/** What a complete answer is settled as. Where the ledger has no place for that, its tail is withheld. */
export const toComplete = (isUnmet: boolean): End => ({
  ...{ status: 'ok', httpStatus: 200 },
  errorCode: isUnmet ? 'schema_not_met' : null,
})

/** Whether the gateway found that a choice does not meet the schema that the client asked for. */
export const isUnmet = (events: readonly AnswerEvent[]): boolean => events.some(({ kind }) => kind === 'unmet')

/** Headers of every answer: the receipt, as far as it is known when the first byte leaves. */
export function toHeaders(
  { format, requestId, headers, settlement }: Delivery,
  begun: Begun | null,
): Record<string, string> {
  const all = Object.assign(format.ids(requestId), headers)
  if (begun === null) return all
  all['x-tollgate-upstream'] = begun.target.upstream.id
  all['x-tollgate-passthrough'] = begun.answer.isPassthrough ? 'true' : 'false'
  all['x-tollgate-attempts'] = String(settlement.attempts)
  if (settlement.outputCap !== null) all['x-tollgate-output-cap'] = String(settlement.outputCap)
  if (isUnmet(begun.events)) all['x-tollgate-schema'] = 'unmet'
  return all
}

/**
 * Resolves to the response. Throws a GatewayError for a failure, its row already settled.
 * @param opening the answer, once all of it is there.
 */
export async function deliverWhole(delivery: Delivery, opening: Promise<Begun>): Promise<Response> {
  try {
    const begun = await opening
    // It was read on for its usage alone. One that comes while the server stops still finds its client.
    if (delivery.client.aborted) throw endedBy('disconnected')
    delivery.settlement.firstToken()
    const receipt = await delivery.settlement.settle(toComplete(isUnmet(begun.events)))
    const headers = toHeaders(delivery, begun)
    headers['content-type'] = 'application/json'
    const { format, task, identity } = delivery
    const { answer, events } = begun
    const written =
      answer.isPassthrough && format.passthrough
        ? format.passthrough.whole(identity, events)
        : format.whole(task, identity, events, receipt)
    const json = typeof written === 'string' ? written : await joinInTurns(written)
    delivery.held.dispose()
    return new Response(json, { headers })
  } catch (error) {
    throw await settleFailure(delivery.settlement, toCause(error, delivery.signal), 'nothing')
  }
}

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
