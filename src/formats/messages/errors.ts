/** Errors in Anthropic's format (platform.claude.com/docs/en/api/errors): types, statuses and request IDs. */
import { GatewayError } from '../../domain/error.ts'
import type { ErrorFormat } from '../format.ts'

export const anthropicErrors: ErrorFormat = {
  error: toErrorBody,
  status: toStatus,
  ids: (requestId) => ({ 'x-request-id': requestId, 'request-id': requestId }),
}

export function toErrorBody(error: GatewayError): object {
  return {
    type: 'error',
    error: {
      type: toType(toStatus(error)),
      message: toMessage(error),
      ...(error.details ? { details: error.details } : {}),
    },
    request_id: error.requestId,
  }
}

/** Anthropic's status for every lack of capacity. */
const OVERLOADED = 529

function toStatus({ status }: GatewayError): number {
  return status === 503 ? OVERLOADED : status
}

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  [OVERLOADED]: 'overloaded_error',
}

const toType = (status: number): string => TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error')

/** Claude Code compacts a conversation on Anthropic's message, so that message replaces the upstream's. */
function toMessage({ code, message }: GatewayError): string {
  if (code !== 'context_length_exceeded' || /prompt is too long/i.test(message)) return message
  const [one, other] = [...message.matchAll(/\d[\d,]*/g)].map(([digits]) => Number(digits.replaceAll(',', '')))
  if (one === undefined || other === undefined) return `prompt is too long: ${message}`
  return `prompt is too long: ${Math.max(one, other)} tokens > ${Math.min(one, other)} maximum`
}

/** @param path dotted path of the field at fault, in Anthropic's notation. */
export const invalid = (path: string, message: string) =>
  new GatewayError('invalid_request', `${path}: ${message}`, { param: path })
