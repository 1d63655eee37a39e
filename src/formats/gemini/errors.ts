/** Errors in Google's format (google.aip.dev/193): a status name by HTTP status, and our code as the reason in `details`. */
import { GatewayError } from '../../domain/error.ts'
import type { ErrorFormat } from '../format.ts'

export const geminiErrors: ErrorFormat = {
  error: toErrorBody,
  ids: (requestId) => ({ 'x-request-id': requestId }),
}

const STATUSES: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  408: 'DEADLINE_EXCEEDED',
  429: 'RESOURCE_EXHAUSTED',
  499: 'CANCELLED',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
}

const toStatusName = (status: number): string => STATUSES[status] ?? (status >= 500 ? 'INTERNAL' : 'INVALID_ARGUMENT')

/** Google's clients read the wait from `RetryInfo`, not from a header. */
export function toErrorBody({ status, code, kind, param, message, requestId, headers }: GatewayError): object {
  const metadata = { ...(requestId === null ? {} : { request_id: requestId }), ...(param === null ? {} : { param }) }
  const wait = headers['retry-after']
  const type = (name: string) => ({ '@type': `type.googleapis.com/google.rpc.${name}` })
  return {
    error: {
      code: status,
      message,
      status: toStatusName(status),
      details: [
        { ...type('ErrorInfo'), reason: (code ?? kind).toUpperCase(), domain: 'tollgate', metadata },
        ...(wait === undefined ? [] : [{ ...type('RetryInfo'), retryDelay: `${wait}s` }]),
      ],
    },
  }
}

/** @param path of the field at fault. */
export const invalid = (path: string, message: string, code: string | null = null) =>
  new GatewayError('invalid_request', `${path}: ${message}`, { param: path, code })
