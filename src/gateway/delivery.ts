/**
 * Common parts of responses, whole responses, and client errors. A whole response is settled before its first byte is
 * sent.
 */
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
import { Turns } from '../threads/turns.ts'
import { blamesTheRequest, toRefusalReason } from '../upstreams/failure.ts'

/** Yields to other requests after this time. */
const TURN_MS = 8

async function joinInTurns(pieces: Iterable<string>): Promise<string> {
  const made: string[] = []
  const turns = new Turns(TURN_MS)
  for (const piece of pieces) {
    made.push(piece)
    if (turns.isOver) await turns.next()
  }
  return made.join('')
}

export class QueueNote {
  #note: (() => string) | null = null

  set = (note: (() => string) | null): void => {
    this.#note = note
  }

  comment(): string | null {
    return this.#note && `: ${this.#note()}\n\n`
  }
}

export interface Delivery {
  requestId: string
  format: Format
  task: Task
  identity: Identity
  settlement: Settlement
  signal: EndSignal
  /** Aborts when the client disconnects. */
  client: AbortSignal
  /** Rate-limit headers, known before the response. */
  headers: Readonly<Record<string, string>>
  waiting: Pick<QueueNote, 'comment'>
  /** Released once everything but the last bytes is done; by the caller if there is no response. */
  held: DisposableStack
}

export interface Begun {
  target: Target
  answer: Answer
  events: readonly AnswerEvent[]
}

/** How a complete response is settled. If the ledger can't take it, the tail of a stream is withheld. */
export const toComplete = (isUnmet: boolean): End => ({
  ...{ status: 'ok', httpStatus: 200 },
  errorCode: isUnmet ? 'schema_not_met' : null,
})

export const isUnmet = (events: readonly AnswerEvent[]): boolean => events.some(({ kind }) => kind === 'unmet')

/** The receipt, as far as it is known before the first byte is sent. */
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

/** Throws a GatewayError on failure, with its row already settled. */
export async function deliverWhole(delivery: Delivery, opening: Promise<Begun>): Promise<Response> {
  try {
    const begun = await opening
    // It was read only for its usage. If only the server stops, it is still delivered.
    if (delivery.client.aborted) throw endedBy('disconnected')
    delivery.settlement.firstToken()
    const receipt = await delivery.settlement.settle(toComplete(isUnmet(begun.events)))
    const headers = toHeaders(delivery, begun)
    const { format, task, identity } = delivery
    headers['content-type'] = format.type?.(task) ?? 'application/json'
    const { answer, events } = begun
    if (format.notes) Object.assign(headers, format.notes(task, events))
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

/** @param begun whether some of the response, or at least its status, was sent. */
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
      // No response reports it anymore, so the log has to.
      ...(begun !== 'nothing' && error.kind === 'internal' ? { mistake: error.cause } : {}),
    })
  } catch (unsettled) {
    // The ledger retries, and has logged why.
    if (!(unsettled instanceof GatewayError)) throw unsettled
    return begun === 'nothing' ? unsettled : error
  }
  return error
}

/** Once the client has disconnected or the server stops, that is the cause, except for internal errors. */
export const toCause = (error: unknown, signal: EndSignal): unknown =>
  signal.aborted && (error instanceof UpstreamError || error instanceof GatewayError) ? endOf(signal) : error

const WAIT_MS = 5_000

/** For the log, without the upstream's own text. Null if the code says it all. */
function toReason(error: unknown): string | null {
  if (!(error instanceof UpstreamError) || error.kind === 'aborted') return null
  const { kind, status, deadline } = error
  if (kind === 'status') return `status ${status}`
  return kind === 'deadline' ? `deadline ${deadline}` : kind
}

const ENDED: Readonly<Record<EndReason, (error: UpstreamError, upstream: string) => GatewayError>> = {
  disconnected: clientClosed,
  superseded: clientClosed,
  stopped: () =>
    new GatewayError('stopped', 'The server stopped before the response completed. Try again.', {
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
  return new GatewayError('client_closed', 'Client disconnected before the response completed.')
}

const toWait = (retryAfterMs: number | null) => ({ 'retry-after': toRetryAfter(retryAfterMs ?? WAIT_MS) })

/** @param lastUpstream for errors that don't name their upstream. */
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
      `Upstream \`${upstream}\` is rate limited: ${error.message}`,
      // A request too large for an upstream's limits won't fit later either.
      { headers: error.retryable ? retryAfter : { 'x-should-retry': 'false' } },
    )
  }
  if (status === 503 || status === 529) {
    return new GatewayError('overloaded', `Upstream \`${upstream}\` is overloaded (it returned ${status}).`, {
      headers: retryAfter,
    })
  }
  const what = kind === 'status' ? `returned ${status}` : error.message
  const why = kind === 'status' ? toRefusalReason(error) : null
  if (why === null) return new GatewayError('upstream_failed', `Upstream \`${upstream}\` ${what}.`)
  // The previous Tollgate in a loop must recognize it, too.
  if (status === LOOP_STATUS)
    return new GatewayError(
      'loop_detected',
      `Upstream \`${upstream}\` ${what}: ${why}. Correct its base_url, or those of the server behind it.`,
    )
  // Retrying doesn't help with wrong configuration.
  const headers = { 'x-should-retry': 'false' }
  return new GatewayError('upstream_failed', `Upstream \`${upstream}\` ${what}: ${why}.`, { headers })
}
