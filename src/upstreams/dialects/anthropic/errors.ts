/** Reads errors: the body of an error status, which may be a proxy's page, or an event. */
import type { UpstreamError } from '../../../domain/error.ts'
import { asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { type ErrorReader, toBareError, toStatusError } from '../errors.ts'

/** Status implied by an error type (platform.claude.com/docs/en/api/errors). */
const STATUS_OF_TYPE: ReadonlyMap<unknown, number> = new Map(
  Object.entries({
    invalid_request_error: 400,
    authentication_error: 401,
    billing_error: 402,
    permission_error: 403,
    not_found_error: 404,
    conflict_error: 409,
    request_too_large: 413,
    rate_limit_error: 429,
    api_error: 500,
    timeout_error: 504,
    overloaded_error: 529,
  }),
)

/** An unpaid account is reported as a bad request. Client text can't match, since it follows its field's path. */
const UNPAID = /^your credit balance is too low/i
const SPENT = /spend_limit|credit|billing/
/** The path at the start of a message, such as `messages.0.content.1.text: …`. */
const PATH = /^([a-z_]+(?:\.[\w-]+)*): /
const NOT_TAKEN = /extra inputs are not permitted/i
const NOT_KNOWN = /does not support|not supported|cannot be used|may not be/i

export const anthropicErrors: ErrorReader = {
  find: (answer) => (answer.type === 'error' || answer.error ? toBareError(answer) : null),
  read: toUpstreamError,
}

function toUpstreamError(
  stated: number | null,
  error: JsonObject,
  target: Target,
  retryAfterMs?: number,
): UpstreamError {
  const message = asText(error.message)
  const given = asText(asObject(error.details)?.error_code)
  const isUnpaid = UNPAID.test(message) || SPENT.test(given)
  const status = isUnpaid ? 402 : (stated ?? STATUS_OF_TYPE.get(error.type) ?? 500)
  const param = PATH.exec(message)?.[1] ?? ''
  return toStatusError({ status, message, code: given || toCode(status, message), param, retryAfterMs }, target)
}

function toCode(status: number, message: string): string {
  if (status === 413) return 'request_too_large'
  if (status !== 400) return ''
  if (NOT_TAKEN.test(message)) return 'unsupported_parameter'
  return NOT_KNOWN.test(message) ? 'unsupported_value' : ''
}
