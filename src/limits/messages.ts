/**
 * Errors and `x-ratelimit-*` headers for exceeded limits. Uses OpenAI's texts where they exist, because clients match
 * on them.
 */

import { type ErrorKind, GatewayError, toRetryAfter, UpstreamError } from '../domain/error.ts'
import type { Budget, Limits } from '../domain/limits.ts'
import type { Spender } from '../domain/snapshot.ts'
import { capitalize } from '../domain/text.ts'
import { toUsd } from '../domain/usage.ts'
import type { BudgetRefusal } from './budget.ts'
import type { RateRefusal, Unit, Window } from './rates.ts'

export type Headers = Readonly<Record<string, string>>

/** Longest wait that the official client libraries honor. */
const MAX_RETRY_MS = 60_000

/** Returns both headers that client libraries read. */
export function toRetryHeaders(retryAfterMs: number | null): Headers {
  if (retryAfterMs === null) return { 'x-should-retry': 'false' }
  return { 'retry-after': toRetryAfter(retryAfterMs), 'retry-after-ms': String(Math.min(MAX_RETRY_MS, retryAfterMs)) }
}

/** Writes ms as Go does, rounded up to whole ms: `0s`, `2ms`, `8.64s`, `1m0s`. */
export function toDuration(ms: number): string {
  const whole = Math.ceil(ms)
  if (whole <= 0) return '0s'
  if (whole < 1_000) return `${whole}ms`
  const minutes = Math.floor(whole / 60_000)
  return `${minutes > 0 ? `${minutes}m` : ''}${(whole % 60_000) / 1_000}s`
}

const ASK = 'ask your administrator for a larger'

const LIMIT_TEXTS: Readonly<Record<RateRefusal['on'], { kind: ErrorKind; name: string; advice: string }>> = {
  rpm: {
    kind: 'request_limit',
    name: 'requests per min (RPM)',
    advice: 'Send requests more slowly',
  },
  tpm: {
    kind: 'token_limit',
    name: 'tokens per min (TPM)',
    advice: 'Requested = prompt + max_tokens (4,096 if unset). Lower max_tokens',
  },
  concurrency: {
    kind: 'request_limit',
    name: 'concurrent requests',
    advice: 'Wait for a running request to finish',
  },
}

export function toRateError(kind: Spender['kind'], name: string, refusal: RateRefusal, headers: Headers): GatewayError {
  const { on, limit, used, requested, retryAfterMs } = refusal
  const text = LIMIT_TEXTS[on]
  const whose = `for ${kind} \`${name}\` on ${text.name}`
  const advice = `${text.advice}, or ${ASK} limit.`
  const sentence =
    retryAfterMs === null
      ? `Request too large ${whose}: Limit ${limit}, Requested ${requested}. Retrying won't help. ${advice}`
      : `Rate limit reached ${whose}: Limit ${limit}, Used ${used}, Requested ${requested}. Please try again in ${toDuration(retryAfterMs)}. ${advice}`
  return new GatewayError(text.kind, sentence, {
    headers: { ...headers, ...toRetryHeaders(retryAfterMs) },
  })
}

/** Another target may have capacity. */
export function toOwnLimitError(upstream: string, refusal: RateRefusal): UpstreamError {
  const { on, limit, used, requested, retryAfterMs } = refusal
  const when =
    retryAfterMs === null
      ? "retrying won't help; raise the limit in the catalog or send a smaller request"
      : `retry in ${toDuration(retryAfterMs)}`
  const detail = retryAfterMs === null ? { retryable: false } : { retryable: true, retryAfterMs }
  return new UpstreamError(
    'status',
    `the Tollgate catalog, not the provider, limits ${LIMIT_TEXTS[on].name} of upstream \`${upstream}\`: Limit ${limit}, Used ${used}, Requested ${requested}; ${when}`,
    { status: 429, isOwnLimit: true, ...detail },
  )
}

/**
 * `headers` are sent with the error.
 * @param isMore whether the response has begun and ends with this error.
 */
export function toBudgetError(refusal: BudgetRefusal, headers: Headers, isMore: boolean): GatewayError {
  const { kind, name, budget, spentNanoUsd, reservedNanoUsd, askedNanoUsd, resetMs } = refusal
  const reset =
    resetMs === null ? 'It never resets.' : `It resets at ${new Date(resetMs).toISOString().replace('.000Z', 'Z')}.`
  const figures = `${toWords(budget)} limit, ${usd(spentNanoUsd)} spent, ${usd(reservedNanoUsd)} reserved by running requests`
  const sentence = isMore
    ? `The response ends here: budget exceeded for ${kind} \`${name}\` (${figures}). ${reset} ${toLargerAdvice(refusal)}`
    : `Budget exceeded for ${kind} \`${name}\`: ${figures}; this request may cost up to ${usd(askedNanoUsd)}. ${reset} ${toBudgetAdvice(refusal)}`
  return new GatewayError('insufficient_quota', sentence, { headers: { ...headers } })
}

const usd = (nanoUsd: number) => `$${toUsd(nanoUsd)}`

const toWords = ({ nanoUsd, period }: Budget) =>
  period === 'total' ? `${usd(nanoUsd)} total` : `${usd(nanoUsd)} per ${period}`

function toBudgetAdvice(refusal: BudgetRefusal): string {
  const { budget, spentNanoUsd, askedNanoUsd, resetMs } = refusal
  const larger = `${ASK} budget`
  const later = resetMs === null ? '' : 'wait for the reset, '
  if (spentNanoUsd >= budget.nanoUsd) return toLargerAdvice(refusal)
  const smaller = 'lower max_tokens, use a cheaper model'
  if (spentNanoUsd + askedNanoUsd > budget.nanoUsd) return `${capitalize(`${smaller}, ${later}or ${larger}`)}.`
  return `Wait for running requests to finish, ${smaller}, or ${larger}.`
}

const toLargerAdvice = ({ resetMs }: BudgetRefusal): string =>
  `${capitalize(`${resetMs === null ? '' : 'wait for the reset, or '}${ASK} budget`)}.`

interface RateHeaders {
  unit: Unit
  limit: string
  remaining: string
  reset: string
}

const headersOf = (unit: Unit): RateHeaders => ({
  unit,
  limit: `x-ratelimit-limit-${unit}`,
  remaining: `x-ratelimit-remaining-${unit}`,
  reset: `x-ratelimit-reset-${unit}`,
})

/** Null for a limit without headers. */
const RATE_HEADERS: Readonly<Record<keyof Limits, RateHeaders | null>> = {
  rpm: headersOf('requests'),
  tpm: headersOf('tokens'),
  concurrency: null,
}
const RATES = Object.entries(RATE_HEADERS) as [keyof Limits, RateHeaders | null][]

/** Adds the figures of one limiter. The lower remaining value of key and team is reported. */
export function addRateHeaders(
  headers: Record<string, string>,
  limits: Limits,
  { window }: { window: Pick<Window, 'used' | 'emptyMs'> },
  nowMs: number,
): void {
  for (const [name, rate] of RATES) {
    const most = limits[name]
    if (most === null || rate === null) continue
    const left = Math.max(0, most - window.used(rate.unit, nowMs))
    const reported = headers[rate.remaining]
    if (reported !== undefined && left >= Number(reported)) continue
    headers[rate.limit] = String(most)
    headers[rate.remaining] = String(left)
    headers[rate.reset] = toDuration(window.emptyMs(rate.unit, nowMs))
  }
}
