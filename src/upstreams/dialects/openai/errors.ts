/** Reads errors of servers that speak the OpenAI format: the body of an error status, in a 200, or within a stream. */
import type { UpstreamError } from '../../../domain/error.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { UNAFFORDABLE_CODE } from '../../failure.ts'
import { type ErrorReader, isOverflowCode, toBareError, toStatusError } from '../errors.ts'

export const openAiErrors: ErrorReader = { find: findError, read: toUpstreamError }

/** `"error": null` isn't an error, and neither is a message next to choices. */
function findError(answer: JsonObject): JsonObject | null {
  const { error, object, type, choices } = answer
  // If `error` is a text or a flag, message and code are next to it.
  if (error) return asObject(error) ?? answer
  if (object === 'error' || type === 'error') return answer
  if (Array.isArray(choices) && choices.length > 0) {
    const failed = choices.find(isFailed)
    return failed ? toBareError(failed) : null
  }
  return isBareError(answer) ? answer : null
}

const FAILURES = new Set(['error', 'abort', 'aborted', 'network_error', 'insufficient_system_resource'])

function isFailed(choice: unknown): boolean {
  const { finish_reason: reason, error } = asObject(choice) ?? {}
  return Boolean(error) || (typeof reason === 'string' && FAILURES.has(reason.toLowerCase()))
}

/** An error without an envelope, as FastAPI and most frameworks send it; not a progress report or ping. */
function isBareError(answer: JsonObject): boolean {
  if (answer.detail) return true
  if (asList(answer.errors).length > 0) return true
  if (!answer.message) return false
  return Object.keys(answer).length === 1 || ['code', 'type', 'status', 'statusCode'].some((key) => answer[key])
}

/** An unpaid account, in the codes of OpenAI, Moonshot and Z.ai. */
const SAID_OF_UNPAID: ReadonlySet<number | null> = new Set([400, 429, null])
const UNPAID: ReadonlySet<unknown> = new Set([
  'insufficient_quota',
  'billing_hard_limit_reached',
  'billing_not_active',
  'exceeded_current_quota_error',
  '1113',
])

/**
 * The prompt was refused, although OpenRouter (openrouter.ai/docs/errors) and xAI return 403. Another credential wouldn't help.
 */
const FLAGGED = /violates usage guidelines|input was flagged|requires moderation/i
const FLAGGED_CODE = 'content_policy_violation'

/** A request larger than the remaining credit, which OpenRouter reports with 402 (openrouter.ai/docs/errors): smaller ones may succeed. */
const UNAFFORDABLE = /but can only afford [1-9]|prompt tokens limit exceeded: \d+ > [1-9]/i

function toUpstreamError(
  status: number | null,
  error: JsonObject,
  target: Target,
  retryAfterMs?: number,
): UpstreamError {
  const { code } = error
  // An unpaid account isn't fixed by waiting or by another request, though providers send 429 or 400.
  const isUnpaid = SAID_OF_UNPAID.has(status) && [code, error.type].some((word) => UNPAID.has(word))
  const given = isUnpaid ? 402 : (status ?? toStatus(error))
  const message = toSentence(error)
  const isFlagged = given === 403 && (FLAGGED.test(message) || asObject(error.metadata)?.flagged_input !== undefined)
  const isUnaffordable = given === 402 && UNAFFORDABLE.test(message)
  return toStatusError(
    {
      status: isFlagged ? 400 : given,
      stated: status === null && given === 500 ? null : given,
      message,
      code: typeof code === 'string' || typeof code === 'number' ? String(code) : '',
      ownCode: isFlagged ? FLAGGED_CODE : isUnaffordable ? UNAFFORDABLE_CODE : null,
      param: asText(error.param) || toParam(error),
      overflow: toOverflowMarks(error),
      retryAfterMs,
    },
    target,
  )
}

function toOverflowMarks(error: JsonObject): { code: string; figures: string } {
  const { n_ctx: most, n_prompt_tokens: asked } = error
  const isCounted = Number.isInteger(most) && Number.isInteger(asked)
  return {
    code: [error.code, error.type].map(asText).find(isOverflowCode) ?? '',
    figures: isCounted ? ` "n_prompt_tokens":${asked},"n_ctx":${most}` : '',
  }
}

/** Codes and types that imply a status, as paired in OpenAI's error guide. */
const STATUS_OF_CODE = new Map(
  Object.entries({
    invalid_request_error: 400,
    context_length_exceeded: 400,
    authentication_error: 401,
    invalid_api_key: 401,
    permission_error: 403,
    not_found_error: 404,
    model_not_found: 404,
    requests: 429,
    tokens: 429,
    rate_limit_error: 429,
    rate_limit_exceeded: 429,
    overloaded_error: 503,
    service_unavailable_error: 503,
    server_is_overloaded: 503,
  }),
)

function toStatus(error: JsonObject): number {
  for (const value of [error.code, error.status, error.status_code, error.statusCode]) {
    const number = typeof value === 'string' ? Number(value) : value
    if (typeof number === 'number' && Number.isInteger(number) && number >= 400 && number <= 599) return number
  }
  return STATUS_OF_CODE.get(asText(error.code)) ?? STATUS_OF_CODE.get(asText(error.type)) ?? 500
}

const WORDS = ['message', 'msg', 'detail', 'error', 'errors', 'title'] as const
const MAX_PARTS = 5

function toSentence(value: unknown, depth = 0): string {
  if (typeof value === 'string') return value
  if (depth > 4) return ''
  if (Array.isArray(value)) {
    const parts = value.slice(0, MAX_PARTS).map((each) => toSentence(each, depth + 1))
    return parts.filter((part) => part !== '').join('; ')
  }
  const error = asObject(value)
  if (!error) return ''
  for (const word of WORDS) {
    const text = toSentence(error[word], depth + 1)
    if (text === '') continue
    const place = toPath(error.loc)
    return place === '' ? text : `${place}: ${text}`
  }
  return ''
}

function toParam(error: JsonObject): string {
  for (const list of [error.detail, asObject(error.message)?.detail, error.errors]) {
    const place = toPath(asObject(asList(list)[0])?.loc)
    if (place !== '') return place
  }
  return ''
}

/** `["body", "messages", 0, "content"]` -> `messages[0].content`. */
function toPath(loc: unknown): string {
  const steps = asList(loc)
  return steps
    .slice(steps[0] === 'body' ? 1 : 0)
    .map((step) => (typeof step === 'number' ? `[${step}]` : asText(step) && `.${step}`))
    .join('')
    .replace(/^\./, '')
}
