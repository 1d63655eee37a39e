/** Says why the API did not answer: as the body of an error status, which may be a proxy's page, or as an event. Pure. */
import { UpstreamError } from '../../../domain/error.ts'
import { asObject, asText, parseJson } from '../../../domain/json.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { toPublic, toPublicCode } from '../../failure.ts'
import { OVERFLOW_CODE, toOverflow } from '../../overflow.ts'

/** What each type stands for where no status is given (platform.claude.com/docs/en/api/errors). */
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

const RETRYABLE: ReadonlySet<number> = new Set([408, 409, 429])

/** An account that has to be paid is said to be a bad request. What a client has written stands behind the path of its field. */
const UNPAID = /^your credit balance is too low/i
/** Spending that an organisation has limited. */
const SPENT = /spend_limit|credit|billing/
/** The path that a message begins with, such as `messages.0.content.1.text: …`. */
const PATH = /^([a-z_]+(?:\.[\w-]+)*): /
/** What another model may well take. */
const NOT_TAKEN = /extra inputs are not permitted/i
const NOT_KNOWN = /does not support|not supported|cannot be used|may not be/i

/** @param status of the response; null for an error inside of one that said 200. */
export function toFailure(status: number | null, body: string, target: Target, retryAfterMs?: number): UpstreamError {
  let error: unknown
  try {
    error = parseJson(body)
  } catch {
    // Markup is a proxy's page and nothing for a client.
    error = body.trimStart().startsWith('<') ? null : { message: body.trim() }
  }
  return toUpstreamError(status, error, target, retryAfterMs)
}

/** @param value the error, with its envelope or without. */
export function toUpstreamError(
  status: number | null,
  value: unknown,
  { upstream, contextLength }: Target,
  retryAfterMs?: number,
): UpstreamError {
  const envelope = asObject(value) ?? {}
  const error = asObject(envelope.error) ?? envelope
  const message = asText(error.message)
  const given = asText(asObject(error.details)?.error_code)
  const isUnpaid = UNPAID.test(message) || SPENT.test(given)
  const effective = isUnpaid ? 402 : (status ?? STATUS_OF_TYPE.get(error.type) ?? 500)
  const overflow = toOverflow(effective, given, message, contextLength)
  const path = PATH.exec(message)?.[1] ?? null
  return new UpstreamError('status', toPublic(overflow ?? (message || 'gave no reason'), upstream), {
    status: overflow === null ? effective : 400,
    code: overflow === null ? toPublicCode(given || toCode(effective, message), upstream) : OVERFLOW_CODE,
    param: overflow === null ? path && toPublic(path, upstream).slice(0, 200) : 'messages',
    retryable: effective >= 500 || RETRYABLE.has(effective),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  })
}

function toCode(status: number, message: string): string {
  if (status === 413) return 'request_too_large'
  if (status !== 400) return ''
  if (NOT_TAKEN.test(message)) return 'unsupported_parameter'
  return NOT_KNOWN.test(message) ? 'unsupported_value' : ''
}
