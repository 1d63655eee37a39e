/** Says why Gemini did not answer: as the body of an error status, in a 200, or in the middle of a stream. Pure. */
import type { UpstreamError } from '../../../domain/error.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { type ErrorReader, toStatusError } from '../errors.ts'

export const geminiErrors: ErrorReader = { find: ({ error }) => asObject(error), read: toUpstreamError }

function toUpstreamError(
  stated: number | null,
  error: JsonObject,
  target: Target,
  retryAfterMs?: number,
): UpstreamError {
  const details = asList(error.details)
    .map(asObject)
    .filter((each) => each !== null)
  const status = toStatus(stated ?? toInnerStatus(error), error, details)
  return toStatusError(
    {
      status,
      message: asText(error.message),
      code: asText(error.status),
      retryAfterMs: status === 429 ? (toQuotaWaitMs(details) ?? retryAfterMs) : retryAfterMs,
    },
    target,
  )
}

/** What Google calls statuses (google.rpc.Code). */
const STATUSES = new Map<string, number>(
  Object.entries({
    INVALID_ARGUMENT: 400,
    FAILED_PRECONDITION: 400,
    OUT_OF_RANGE: 400,
    UNAUTHENTICATED: 401,
    PERMISSION_DENIED: 403,
    NOT_FOUND: 404,
    RESOURCE_EXHAUSTED: 429,
    UNAVAILABLE: 503,
    DEADLINE_EXCEEDED: 504,
  }),
)

function toInnerStatus({ code, status }: JsonObject): number {
  if (typeof code === 'number' && Number.isInteger(code) && code >= 400 && code <= 599) return code
  return STATUSES.get(asText(status)) ?? 500
}

/**
 * A key that is wrong, and an account that may not be served, are answered as if the request were to blame. What is wrong with a request
 * is an INVALID_ARGUMENT, and quotes what its client wrote.
 */
function toStatus(status: number, error: JsonObject, details: JsonObject[]): number {
  if (status !== 400) return status
  const message = asText(error.message)
  if (/^API key (not valid|expired)/i.test(message) || details.some(({ reason }) => isOfKey(asText(reason)))) return 401
  const isOfAccount = /User location is not supported|enable billing/i.test(message)
  return isOfAccount && error.status === 'FAILED_PRECONDITION' ? 403 : 400
}

const isOfKey = (reason: string) => reason === 'API_KEY_INVALID' || reason === 'API_KEY_EXPIRED'

/** What is used up for the day is not there in an hour either, but a day may end at any time. */
const DAY_MS = 60 * 60_000

/** How long a quota asks to wait, which no header tells; undefined where it does not say. */
function toQuotaWaitMs(details: JsonObject[]): number | undefined {
  const ofDay = details.some(({ violations }) =>
    asList(violations).some((each) => /PerDay/i.test(asText(asObject(each)?.quotaId))),
  )
  if (ofDay) return DAY_MS
  for (const { retryDelay } of details) {
    const seconds = /^(\d{1,6}(?:\.\d{1,9})?)s$/.exec(asText(retryDelay))?.[1]
    if (seconds !== undefined) return Math.ceil(Number(seconds) * 1_000)
  }
  return undefined
}
