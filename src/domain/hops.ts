/**
 * Which Tollgate servers a request has passed. Each adds its id to a header of its requests to upstreams and refuses what it has
 * sent on itself: an upstream that leads back would be called until files run out. An id is random, of one run, and says
 * nothing of its server. Pure.
 */
import { type Decision, GatewayError } from './error.ts'

export const HOPS_HEADER = 'x-tollgate-hops'

/** Tollgate servers in a row. */
const MOST_HOPS = 8

/** What stands in the header between its commas; anything else is dropped. */
const HOP = /^[\w-]{1,64}$/

/** What an upstream is sent in the header: the servers before this one, and this one. Returns the refusal of a loop. */
export function addHop(passed: string | undefined, own: string): Decision<string> {
  if (passed === undefined) return own
  const hops = passed.split(',').flatMap((each) => HOP.exec(each.trim()) ?? [])
  if (hops.includes(own))
    return new GatewayError(
      'loop_detected',
      'This server sent the request to an upstream that leads back to this server. Correct the base_url of that upstream in the catalog.',
    )
  if (hops.length >= MOST_HOPS)
    return new GatewayError(
      'loop_detected',
      `The request has passed ${hops.length} Tollgate servers, and at most ${MOST_HOPS} may be chained. Correct the base_url of their upstreams in their catalogs.`,
    )
  return [...hops, own].join(',')
}
