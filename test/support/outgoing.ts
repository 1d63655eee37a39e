/** An ordinary outgoing request, with overrides. */
import type { Outgoing } from '../../src/upstreams/transport.ts'
import { toTarget } from './snapshot.ts'

/**
 * Transports keep state per upstream object, new each time: copy it for further requests to the same. @param baseUrl of
 * its upstream.
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
