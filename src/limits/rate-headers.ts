/**
 * `x-ratelimit-*`: what stands beside answers of the rates that a request is under, as they are at that moment: the limit,
 * what is left of it, and when all of it is free again. Pure.
 */
import type { Limits } from '../domain/limits.ts'
import { toDuration } from './messages.ts'
import type { RateLimiter } from './rates.ts'

/**
 * Adds the figures of one who has rates. Of requests and of tokens each, what leaves less is told: what another has put
 * there stays where it leaves as much or less.
 */
export function addRateHeaders(
  headers: Record<string, string>,
  { requestsPerMinute, tokensPerMinute }: Limits,
  { window }: RateLimiter,
  nowMs: number,
): void {
  if (requestsPerMinute !== null) {
    const left = Math.max(0, requestsPerMinute - window.used('requests', nowMs))
    if (isLess(left, headers['x-ratelimit-remaining-requests'])) {
      headers['x-ratelimit-limit-requests'] = String(requestsPerMinute)
      headers['x-ratelimit-remaining-requests'] = String(left)
      headers['x-ratelimit-reset-requests'] = toDuration(window.emptyMs('requests', nowMs))
    }
  }
  if (tokensPerMinute !== null) {
    const left = Math.max(0, tokensPerMinute - window.used('tokens', nowMs))
    if (isLess(left, headers['x-ratelimit-remaining-tokens'])) {
      headers['x-ratelimit-limit-tokens'] = String(tokensPerMinute)
      headers['x-ratelimit-remaining-tokens'] = String(left)
      headers['x-ratelimit-reset-tokens'] = toDuration(window.emptyMs('tokens', nowMs))
    }
  }
}

const isLess = (left: number, told: string | undefined) => told === undefined || left < Number(told)
