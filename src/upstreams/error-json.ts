/** Errors of upstreams as JSON, for another process of this server. The cause isn't sent. */
import { UpstreamError, type UpstreamErrorDetail, type UpstreamErrorKind } from '../domain/error.ts'

export interface UpstreamErrorJson extends Omit<UpstreamErrorDetail, 'cause'> {
  kind: UpstreamErrorKind
  message: string
}

export function toErrorJson(error: UpstreamError): UpstreamErrorJson {
  const { kind, message, status, code, param, deadline, end, retryable, retryAfterMs } = error
  const { isOwnLimit, isTooLong, isBusy, isSpoiled } = error
  return {
    ...{ kind, message, code, param, retryable, isOwnLimit, isTooLong, isBusy, isSpoiled },
    ...(status !== null && { status }),
    ...(deadline !== null && { deadline }),
    ...(end !== null && { end }),
    ...(retryAfterMs !== null && { retryAfterMs }),
  }
}

export const toUpstreamError = ({ kind, message, ...detail }: UpstreamErrorJson): UpstreamError =>
  new UpstreamError(kind, message, detail)
