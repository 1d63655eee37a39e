/**
 * How much compute a call is charged for, where its price sheet has a price of a second: the time that its upstream was at work on it,
 * in whole ms. It begins when the request goes out to the server, so that a wait for a place, for a server that is loaded first or for
 * room here is none of it; where it is sent once more over another connection, it begins then. It ends with the answer, as it was read:
 * a client that reads slowly keeps the server's place, and pays for that. Of a call that is left, aborted or given up at a deadline it
 * is the time until then, or until it is read no more (`leave`). A call that failed before its first word costs nothing; every other
 * call of a request (a retry, a fallback, each of several choices) has time of its own. A server of one's own that nobody starts here
 * may have requests wait by itself, which nobody sees: that counts. Pure.
 */
import type { CanonicalRequest } from '../domain/request.ts'
import type { Upstream } from '../domain/snapshot.ts'
import type { Call } from './call.ts'

/**
 * The most that a call may be charged for: its deadline. A schema that is enforced here has a stream asked for as a whole answer, so
 * that the later of the two counts for a stream.
 */
export const toMostComputeMs = (
  { deadlines: { total, totalWhole } }: Pick<Upstream, 'deadlines'>,
  { stream }: Pick<CanonicalRequest, 'stream'>,
): number => (stream ? Math.max(total, totalWhole) : totalWhole)

/** What a call is charged for, to its end or so far: no more than was held for it, though a deadline be noticed late. */
export const toComputeMs = ({ target, body, meter }: Pick<Call, 'target' | 'body' | 'meter'>): number =>
  Math.min(meter.workedMs, toMostComputeMs(target.upstream, body))
