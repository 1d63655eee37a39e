/**
 * What a client reads of a limit that refuses it: which one it was, its figures, when there is room again and what to do. In
 * OpenAI's words where it has some, because clients look for them. And `x-ratelimit-*`, how the rates stand. Pure.
 */
import { type ErrorKind, GatewayError, toRetryAfter, UpstreamError } from '../domain/error.ts'
import type { Budget, Limits } from '../domain/limits.ts'
import type { Spender } from '../domain/snapshot.ts'
import { toUsd } from '../domain/usage.ts'
import type { BudgetRefusal } from './budget.ts'
import type { RateLimiter, RateRefusal, Unit } from './rates.ts'

export type Headers = Readonly<Record<string, string>>

/** The official client libraries wait so long at most: told to wait longer, they fall back on a backoff of their own. */
const MAX_RETRY_MS = 60_000

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

/** Whom to ask for more than the key or the team has that a refusal names. */
const ASK = 'ask your administrator for a larger'

/** How a client is told which limit leaves no room, and what to do. */
const TOLD: Readonly<Record<RateRefusal['on'], { kind: ErrorKind; name: string; advice: string }>> = {
  rpm: {
    kind: 'request_limit',
    name: 'requests per min (RPM)',
    advice: 'Send requests more slowly',
  },
  tpm: {
    kind: 'token_limit',
    name: 'tokens per min (TPM)',
    advice: 'Requested counts the prompt and max_tokens, or 4,096 tokens without it: set a smaller max_tokens',
  },
  concurrency: {
    kind: 'request_limit',
    name: 'concurrent requests',
    advice: 'Wait for an answer that is under way to end',
  },
}

/** Makes the refusal of the rate or concurrency limit of a key or a team. `headers` go with it. */
export function toRateError(kind: Spender['kind'], name: string, refusal: RateRefusal, headers: Headers): GatewayError {
  const { on, limit, used, requested, retryAfterMs } = refusal
  const told = TOLD[on]
  const whose = `for ${kind} \`${name}\` on ${told.name}`
  const advice = `${told.advice}, or ${ASK} limit.`
  const sentence =
    retryAfterMs === null
      ? `Request too large ${whose}: Limit ${limit}, Requested ${requested}. Waiting does not help. ${advice}`
      : `Rate limit reached ${whose}: Limit ${limit}, Used ${used}, Requested ${requested}. Please try again in ${toDuration(retryAfterMs)}. ${advice}`
  return new GatewayError(told.kind, sentence, {
    headers: { ...headers, ...toRetryHeaders(retryAfterMs) },
  })
}

/** Makes the failure of a call that an upstream's own limits leave no room for. Another target may have some. */
export function toOwnLimitError(upstream: string, refusal: RateRefusal): UpstreamError {
  const { on, limit, used, requested, retryAfterMs } = refusal
  const when =
    retryAfterMs === null
      ? 'waiting does not help, the limit has to be raised there or the request made smaller'
      : `there is room again in ${toDuration(retryAfterMs)}`
  const detail = retryAfterMs === null ? { retryable: false } : { retryable: true, retryAfterMs }
  return new UpstreamError(
    'status',
    `the catalogue, not the provider, limits ${TOLD[on].name} of upstream \`${upstream}\`: Limit ${limit}, Used ${used}, Requested ${requested}; ${when}`,
    { status: 429, isOwnLimit: true, ...detail },
  )
}

/**
 * Makes the refusal of a budget that has no room for a request. `headers` go with it.
 * @param isMore whether its answer has begun, and ends here.
 */
export function toBudgetError(refusal: BudgetRefusal, headers: Headers, isMore: boolean): GatewayError {
  const { kind, name, budget, spentNanoUsd, reservedNanoUsd, askedNanoUsd, resetMs } = refusal
  const reset =
    resetMs === null ? 'It never resets.' : `It resets at ${new Date(resetMs).toISOString().replace('.000Z', 'Z')}.`
  const standing = `${toWords(budget)}, of which ${usd(spentNanoUsd)} is spent and ${usd(reservedNanoUsd)} is reserved by requests in flight`
  const sentence = isMore
    ? `The response ends here: the budget of ${kind} \`${name}\` has no room for the rest of it (${standing}). ${reset} ${toLargerAdvice(refusal)}`
    : `The budget of ${kind} \`${name}\` has no room for this request: ${standing}; this one could cost at most ${usd(askedNanoUsd)}. ${reset} ${toBudgetAdvice(refusal)}`
  return new GatewayError('insufficient_quota', sentence, { headers: { ...headers } })
}

const usd = (nanoUsd: number) => `${toUsd(nanoUsd)} USD`

const toWords = ({ nanoUsd, period }: Budget) =>
  period === 'total' ? `${usd(nanoUsd)} in total` : `${usd(nanoUsd)} per ${period}`

/** What frees room, by what takes it: the spent, the request alone, or the requests under way. */
function toBudgetAdvice(refusal: BudgetRefusal): string {
  const { budget, spentNanoUsd, askedNanoUsd, resetMs } = refusal
  const larger = `${ASK} budget`
  const later = resetMs === null ? '' : 'wait for that, or '
  if (spentNanoUsd >= budget.nanoUsd) return toLargerAdvice(refusal)
  const smaller = 'set a smaller max_tokens, ask a cheaper model'
  if (spentNanoUsd + askedNanoUsd > budget.nanoUsd) return capitalized(`${smaller}, or ${later}${larger}`)
  return capitalized(`wait for requests in flight to end, ${smaller}, or ${larger}`)
}

const toLargerAdvice = ({ resetMs }: BudgetRefusal): string =>
  capitalized(`${resetMs === null ? '' : 'wait for that, or '}${ASK} budget`)

const capitalized = (words: string) => `${words.charAt(0).toUpperCase()}${words.slice(1)}.`

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

/** What each limit is told by; null for one that has no such headers. */
const RATE_HEADERS: Readonly<Record<keyof Limits, RateHeaders | null>> = {
  rpm: headersOf('requests'),
  tpm: headersOf('tokens'),
  concurrency: null,
}
const RATES = Object.entries(RATE_HEADERS) as [keyof Limits, RateHeaders | null][]

/**
 * Adds the figures of one who has rates. Of requests and of tokens each, what leaves less is told: what another has put
 * there stays where it leaves as much or less.
 */
export function addRateHeaders(
  headers: Record<string, string>,
  limits: Limits,
  { window }: RateLimiter,
  nowMs: number,
): void {
  for (const [name, rate] of RATES) {
    const most = limits[name]
    if (most === null || rate === null) continue
    const left = Math.max(0, most - window.used(rate.unit, nowMs))
    const told = headers[rate.remaining]
    if (told !== undefined && left >= Number(told)) continue
    headers[rate.limit] = String(most)
    headers[rate.remaining] = String(left)
    headers[rate.reset] = toDuration(window.emptyMs(rate.unit, nowMs))
  }
}
