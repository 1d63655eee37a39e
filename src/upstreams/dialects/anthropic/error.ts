/** Says why the API did not answer: as the body of an error status, which may be a proxy's page, or as an event. Pure. */
import { UpstreamError } from '../../../domain/error.ts'
import { asObject, asText, parseJson } from '../../../domain/json.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { toPublic, toPublicCode } from '../../failure.ts'

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

/** `prompt is too long: 208310 tokens > 200000 maximum` */
const TOO_LONG = /prompt is too long: (\d+) tokens > (\d+) maximum/i
/** ``input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000`` */
const TOO_LONG_TOGETHER = /exceed context limit: (\d+) \+ (\d+) > (\d+)/i
/** An account that has to be paid is said to be a bad request. */
const UNPAID = /credit balance is too low/i
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
  { upstream }: Target,
  retryAfterMs?: number,
): UpstreamError {
  const envelope = asObject(value) ?? {}
  const error = asObject(envelope.error) ?? envelope
  const message = asText(error.message)
  const given = asText(asObject(error.details)?.error_code)
  const isUnpaid = UNPAID.test(message) || SPENT.test(given)
  const effective = isUnpaid ? 402 : (status ?? STATUS_OF_TYPE.get(error.type) ?? 500)
  const overflow = effective === 400 || effective === 413 ? toOverflow(message) : null
  const path = PATH.exec(message)?.[1] ?? null
  return new UpstreamError('status', overflow ?? toPublic(message || 'gave no reason', upstream), {
    status: overflow === null ? effective : 400,
    code: overflow === null ? toPublicCode(given || toCode(effective, message), upstream) : 'context_length_exceeded',
    param: overflow === null ? path && toPublic(path, upstream).slice(0, 200) : 'messages',
    retryable: effective >= 500 || RETRYABLE.has(effective),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  })
}

/** The words by which clients know that they must shorten their history; null where it is something else. */
function toOverflow(message: string): string | null {
  const [, prompt, most] = TOO_LONG.exec(message) ?? []
  const [, read, written, both] = TOO_LONG_TOGETHER.exec(message) ?? []
  const limit = most ?? both
  if (limit === undefined) return null
  const asked = prompt ?? String(Number(read) + Number(written))
  return `This model's maximum context length is ${limit} tokens. However, you requested ${asked} tokens. Please reduce the length of the messages or completion.`
}

function toCode(status: number, message: string): string {
  if (status === 413) return 'request_too_large'
  if (status !== 400) return ''
  if (NOT_TAKEN.test(message)) return 'unsupported_parameter'
  return NOT_KNOWN.test(message) ? 'unsupported_value' : ''
}
