/** What a client reads of its limits beside the answer: `x-ratelimit-*` and `retry-after`. Pure. */
import { toRetryAfter } from '../domain/error.ts'
import type { Limits } from '../domain/settings.ts'
import type { RateLimiter } from './rates.ts'
import type { Unit } from './window.ts'

export type Headers = Readonly<Record<string, string>>

export const NO_HEADERS: Headers = Object.freeze({})

/** The official client libraries wait so long at most: told to wait longer, they fall back on a backoff of their own. */
const MAX_RETRY_MS = 60_000

/** Tells the rates that a key has, as they stand now: what is left, and when all of it is free again. */
export function toRateHeaders(
  { requestsPerMinute, tokensPerMinute }: Limits,
  rates: RateLimiter | null,
  nowMs: number,
): Headers {
  if (rates === null || (requestsPerMinute === null && tokensPerMinute === null)) return NO_HEADERS
  const headers: Record<string, string> = {}
  const { window } = rates
  if (requestsPerMinute !== null) tell(headers, NAMES.requests, requestsPerMinute, window, 'requests', nowMs)
  if (tokensPerMinute !== null) tell(headers, NAMES.tokens, tokensPerMinute, window, 'tokens', nowMs)
  return headers
}

const toNames = (unit: Unit) => ({
  limit: `x-ratelimit-limit-${unit}`,
  remaining: `x-ratelimit-remaining-${unit}`,
  reset: `x-ratelimit-reset-${unit}`,
})
const NAMES = { requests: toNames('requests'), tokens: toNames('tokens') }

function tell(
  headers: Record<string, string>,
  names: ReturnType<typeof toNames>,
  limit: number,
  window: RateLimiter['window'],
  unit: Unit,
  nowMs: number,
): void {
  headers[names.limit] = String(limit)
  headers[names.remaining] = String(Math.max(0, limit - window.used(unit, nowMs)))
  headers[names.reset] = toDuration(window.emptyMs(unit, nowMs))
}

/** Says when to come back, in the two units that client libraries read; or that coming back is no use. */
export function toRetryHeaders(retryAfterMs: number | null): Headers {
  if (retryAfterMs === null) return { 'x-should-retry': 'false' }
  return { 'retry-after': toRetryAfter(retryAfterMs), 'retry-after-ms': String(Math.min(MAX_RETRY_MS, retryAfterMs)) }
}

/** Writes ms as Go does, rounded up to whole ones: `0s`, `2ms`, `8.64s`, `1m0s`. */
export function toDuration(ms: number): string {
  const whole = Math.ceil(ms)
  if (whole <= 0) return '0s'
  if (whole < 1_000) return `${whole}ms`
  const minutes = Math.floor(whole / 60_000)
  return `${minutes > 0 ? `${minutes}m` : ''}${(whole % 60_000) / 1_000}s`
}
