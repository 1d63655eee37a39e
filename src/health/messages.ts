/** What `health.ts` makes of a failed call: whether it counts, what it blames, and how it reads. Pure. */

import type { UpstreamError } from '../domain/error.ts'
import { redact } from '../log.ts'
import { isOurShortage } from '../upstreams/network-messages.ts'

/** An upstream's own words may be a whole page. */
const MAX_CHARS = 300

/** Whether the breaker counts it: the target did not do its work. A 4xx is an answer, a 429 a provider's good right. */
export const isFailure = ({ kind, status }: UpstreamError): boolean =>
  kind === 'status' ? status === null || status >= 500 : kind !== 'aborted'

/** Whether it leaves in doubt that the upstream can be reached at all. */
export const isUnreached = ({ kind, deadline }: UpstreamError): boolean =>
  kind === 'connection' || (kind === 'deadline' && (deadline === 'headers' || deadline === 'total_whole'))

/** Whether it failed for want of files or ports of our own: then it says nothing of the upstream. */
export const isOurs = ({ cause }: UpstreamError): boolean => isOurShortage(cause)

/** Our own words for a broken answer may quote a header. */
const MAX_CLIENT_CHARS = 100

/** The failure in our own words, which clients may read: an upstream's may say what is none of their business. */
export const toWords = ({ kind, status, message }: UpstreamError): string =>
  kind === 'status' ? `status ${status ?? 'unknown'}` : message.slice(0, MAX_CLIENT_CHARS)

/** The failure with the upstream's words, for an administrator. */
export function toLastError({ kind, status, message }: UpstreamError): string {
  const words = kind === 'status' ? `status ${status ?? 'unknown'}: ${message}` : message
  return redact(words).slice(0, MAX_CHARS)
}
