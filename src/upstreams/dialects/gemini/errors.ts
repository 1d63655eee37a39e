/** Reads errors: the body of an error status, in a 200, or within a stream. */
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

/** Google's status names (google.rpc.Code). */
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

/** Google also returns 400 for an invalid key or a suspended account. INVALID_ARGUMENT means another error, and may quote the client. */
function toStatus(status: number, error: JsonObject, details: JsonObject[]): number {
  if (status !== 400) return status
  const message = asText(error.message)
  if (/^API key (not valid|expired)/i.test(message) || details.some(({ reason }) => isOfKey(asText(reason)))) return 401
  const isOfAccount = /User location is not supported|enable billing/i.test(message)
  return isOfAccount && error.status === 'FAILED_PRECONDITION' ? 403 : 400
}

const isOfKey = (reason: string) => reason === 'API_KEY_INVALID' || reason === 'API_KEY_EXPIRED'

/** A daily quota may be reset at any time. */
const DAY_MS = 60 * 60_000

/** The wait stated by a quota error, since no header has it; undefined if unstated. */
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
