/** What keys, teams and upstreams may use: requests, tokens, calls at a time, and money. */

export const PERIODS = ['day', 'week', 'month', 'total'] as const
export type Period = (typeof PERIODS)[number]

/** What a key may do, or what an upstream is asked at most; null = no limit. Concurrency counts calls in flight. */
export interface Limits {
  requestsPerMinute: number | null
  tokensPerMinute: number | null
  concurrency: number | null
}

/** No limit of requests or tokens is larger: beyond it is a slip of the hand. */
export const MAX_LIMIT = 1_000_000_000

export const NO_LIMITS: Limits = { requestsPerMinute: null, tokensPerMinute: null, concurrency: null }

/** What may be spent in each period, in UTC; `total` never resets. */
export interface Budget {
  nanoUsd: number
  period: Period
}

/** From here on a budget's owner is warned, in lists and in the log. */
export const BUDGET_WARNING_PERCENT = 80
