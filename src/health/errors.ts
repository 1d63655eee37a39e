/** What the error of a call says about its target. */
import type { UpstreamError } from '../domain/error.ts'
import { redact } from '../log.ts'
import { toRefusal, toRefusalReason } from '../upstreams/failure.ts'
import { isOurShortage } from '../upstreams/shortage.ts'

/** Whether the breaker counts it: the target failed to do its work. 4xx and 429 don't count. */
export function isFailure(error: UpstreamError): boolean {
  const { kind, status, cause, isBusy, isSpoiled } = error
  if (isBusy || isSpoiled || toRefusal(error) !== null) return false
  if (kind === 'status') return status === null || status >= 500
  return kind !== 'aborted' && !isOurShortage(cause)
}

/** An error about the request itself isn't the upstream's error. */
export const isOfUpstream = (error: UpstreamError): boolean =>
  isFailure(error) || error.status === 429 || error.isSpoiled || toRefusalReason(error) !== null

export const isUnreached = ({ kind, deadline }: UpstreamError): boolean =>
  kind === 'connection' || (kind === 'deadline' && (deadline === 'headers' || deadline === 'total_whole'))

/** Short, and without the upstream's own text, since clients may read it. */
export const toWords = ({ kind, status, message }: UpstreamError): string =>
  kind === 'status' ? `status ${status ?? 'unknown'}` : message.slice(0, 100)

export function toMessage(error: UpstreamError): string {
  const words = error.kind === 'status' ? `${toWords(error)}: ${error.message}` : error.message
  return redact(words).slice(0, 300)
}
