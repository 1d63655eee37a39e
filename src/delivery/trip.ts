/** What the relay is told about one request, and what both ways of answering it share. */

import type { Settlement } from '../accounting/settle.ts'
import type { BackendAnswer } from '../domain/answer.ts'
import { GatewayError } from '../domain/error.ts'
import type { Target } from '../domain/snapshot.ts'
import { toUsageJson } from '../domain/usage.ts'
import type { Shape } from '../formats/chat/normalise.ts'
import { toGatewayError, toReason } from './failure.ts'

export interface RelayInput {
  /** What the answer has to look like, but for what depends on who gives it. */
  shape: Omit<Shape, 'thinkTags'>
  stream: boolean
  requestId: string
  /** Resolves to what `open` makes of the first answer that begins; where `open` throws an UpstreamError, others are tried. */
  attempt<T>(open: (answer: BackendAnswer, target: Target) => T | Promise<T>): Promise<T>
  settlement: Settlement
  /** The client's own signal: aborts when it leaves. */
  signal: AbortSignal
  /** Headers of every answer that are known before it: how the key's rates stand. */
  headers: Readonly<Record<string, string>>
  /** After how much silence a stream says that it lives, ms; 0 = never. */
  heartbeatMs: number
  /** How long a client may leave a full buffer standing, ms. */
  slowReaderMs: number
  /** Called once, when all but the end of the connection's answer is done. */
  onEnd(): void
}

/** A request whose attempt has an answer. */
export interface Trip {
  input: RelayInput
  target: Target
  answer: BackendAnswer
}

export function shapeOf({ input, target }: Trip): Shape {
  const { identity, includeUsage, choices, logprobs } = input.shape
  return { identity, includeUsage, choices, logprobs, thinkTags: target.upstream.options.think_tags }
}

/** Headers of every answer: the receipt, as far as it is known when the first byte leaves. */
export function headersOf({ input, target, answer }: Trip): Record<string, string> {
  const headers: Record<string, string> = {
    'x-request-id': input.requestId,
    ...input.headers,
    'x-tollgate-upstream': target.upstream.id,
    'x-tollgate-attempts': String(input.settlement.attempts()),
  }
  if (answer.kind === 'whole' && answer.schema) headers['x-tollgate-schema'] = answer.schema
  return headers
}

/** Settles a complete answer. Returns the client's `usage` as JSON. Throws `ledger_unavailable`: its tail is withheld. */
export async function settleComplete({ settlement }: RelayInput): Promise<string> {
  const { usage, costNanoUsd } = await settlement.settle({ status: 'ok', httpStatus: 200, errorCode: null })
  return toUsageJson(usage, costNanoUsd)
}

/**
 * Settles a request that came to no good end, and returns what its client is told.
 * @param begun whether something of the answer has left, or at least its status has.
 */
export async function settleFailure(
  { settlement }: RelayInput,
  cause: unknown,
  begun: 'nothing' | 'status' | 'answer',
): Promise<GatewayError> {
  const error = toGatewayError(cause, settlement.upstream())
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
