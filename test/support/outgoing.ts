/** A request as a transport takes it: only what a test names is out of the ordinary. */
import type { Outgoing } from '../../src/upstreams/transport.ts'
import { toTarget } from './snapshot.ts'

/**
 * Transports keep what they know by the upstream, which is a new one each time: further requests to the same are copies.
 *
 * @param baseUrl of its upstream.
 */
export const toOutgoing = (baseUrl: string, fields: Partial<Outgoing> = {}): Outgoing => ({
  upstream: toTarget({ baseUrl }).upstream,
  path: '/chat',
  headers: () => ({}),
  accept: 'a/b',
  callId: 'x-1',
  hops: 'a',
  body: '{}',
  ...fields,
})
