/** What the relay is told about one request, and what both ways of answering it share. */
import type { BackendAnswer } from '../wire/chat.ts'
import { toUsageJson, type Usage } from '../wire/usage.ts'
import { estimateUsage } from './count.ts'
import type { Shape, Sizes } from './normalise.ts'
import type { Settlement } from './settlement.ts'

export interface RelayInput {
  shape: Shape
  requestId: string
  /** What the prompt was estimated at, for a bill without the upstream's own count. */
  promptTokens: number
  /** The upstream that is tried first: named where the attempt fails. */
  upstream: string
  attempt: Promise<{ answer: BackendAnswer; target: { upstream: { id: string } }; attempts: number }>
  settlement: Settlement
  /** The client's own signal: aborts when it leaves. */
  signal: AbortSignal
  /** Called once, when all but the end of the connection's answer is done. */
  onEnd(): void
}

/** A request whose attempt has an answer. */
export interface Trip extends RelayInput {
  attempts: number
  upstreamRequestId: string | undefined
}

/** Headers of every answer: the receipt, as far as it is known when the first byte leaves. */
export const headersOf = (trip: Trip) => ({
  'x-request-id': trip.requestId,
  'x-tollgate-upstream': trip.upstream,
  'x-tollgate-attempts': String(trip.attempts),
})

/** Estimates usage that the upstream did not report from what it sent. */
export const estimateOf = ({ promptTokens }: RelayInput, sizes: Sizes): Usage =>
  estimateUsage(promptTokens, sizes.answer, sizes.reasoning)

/**
 * Settles a complete answer, by what the upstream reported or else by an estimate. Returns the client's `usage` as
 * JSON, once the row is durable. Throws `ledger_unavailable`: then the answer's tail is withheld.
 */
export async function settleComplete(trip: Trip, reported: Usage | null, sizes: Sizes): Promise<string> {
  const usage = reported ?? estimateOf(trip, sizes)
  const cost = await trip.settlement.settle({
    status: 'ok',
    httpStatus: 200,
    errorCode: null,
    usage,
    estimated: reported === null,
    attempts: trip.attempts,
    upstreamRequestId: trip.upstreamRequestId,
  })
  return toUsageJson(usage, cost)
}
