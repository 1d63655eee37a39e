/** What every dialect reads alike of an upstream's failure: whom it blames, how long to wait, and what others may read of it. Pure. */
import { LOOP_STATUS, type UpstreamError } from '../domain/error.ts'
import type { Readiness } from './backend.ts'
import type { Incoming } from './transport.ts'

/** What an upstream says about the request itself: the client should read it, and the next upstream would say it too. */
const OF_THE_REQUEST: ReadonlySet<number | null> = new Set([400, 413, 422])

export const blamesTheRequest = (status: number | null): boolean => OF_THE_REQUEST.has(status)

export interface Refusal {
  /** Whether all models of the upstream are refused, or this one. */
  of: 'upstream' | 'target'
  /** Whether other keys would get the same: a 403 or a 404 may be about this request. */
  isForEveryone: boolean
  /** Such as `its account has to be paid`. */
  why: string
}

/** What blames the configuration of this server: the credential or the account, or else the address or the model's name there. */
const REFUSALS: Readonly<Record<number, Refusal>> = {
  401: { of: 'upstream', isForEveryone: true, why: 'its api_key in the catalogue is missing or wrong' },
  402: { of: 'upstream', isForEveryone: true, why: 'its account has to be paid' },
  403: {
    of: 'upstream',
    isForEveryone: false,
    why: 'its api_key in the catalogue, or its account, may not do this',
  },
  404: {
    of: 'target',
    isForEveryone: false,
    why: 'its base_url, or the model of its route in the catalogue, does not exist there',
  },
  405: { of: 'target', isForEveryone: false, why: 'its base_url in the catalogue is not that of a chat API' },
  // A client may have sent the header of a loop itself.
  [LOOP_STATUS]: {
    of: 'upstream',
    isForEveryone: false,
    why: 'its base_url in the catalog leads back to a Tollgate server that the request has passed, or through too many',
  },
}

/** Reads a status; null where it blames nothing on us. */
export const toStatusRefusal = (status: number): Refusal | null => REFUSALS[status] ?? null

/** A code of ours, beside a 402: the account has credit, and less than this request may cost. For a smaller one it may do. */
export const UNAFFORDABLE_CODE = 'request_unaffordable'

const isUnaffordable = ({ status, code }: Pick<UpstreamError, 'status' | 'code'>): boolean =>
  status === 402 && code === UNAFFORDABLE_CODE

/** Reads what a failure says of this server's configuration; null where it says nothing, or of this request alone. */
export const toRefusal = (failure: Pick<UpstreamError, 'status' | 'code'>): Refusal | null =>
  isUnaffordable(failure) ? null : toStatusRefusal(failure.status ?? 0)

const UNAFFORDABLE = 'its account has less credit than this request may cost; one with a smaller `max_tokens` may do'

/** Why an upstream did not answer, in words for a client; null where its status says nothing of it. */
export const whyRefused = (failure: Pick<UpstreamError, 'status' | 'code'>): string | null =>
  isUnaffordable(failure) ? UNAFFORDABLE : (toRefusal(failure)?.why ?? null)

/** What of an UpstreamError tells whether a credential is at fault. */
export type ToldFailure = Pick<UpstreamError, 'kind' | 'status' | 'code' | 'message' | 'retryAfterMs' | 'isOwnLimit'>

/** Why a credential is not used for a time, where another one may do. */
export interface CredentialFailure {
  state: 'refused' | 'out_of_quota'
  /** In words for an administrator, without those of the upstream. */
  reason: string
  forMs: number
}

/** Somebody has to repair it, and nobody would tell. */
const REFUSED_MS = 5 * 60_000
/** A limit of a minute is over before another credential would matter. */
const MIN_QUOTA_MS = 60_000
/** It may be larger by then, or paid for. */
const MAX_QUOTA_MS = 60 * 60_000
/** Codes of a quota or an account, whatever the words beside them (platform.openai.com/docs/guides/error-codes, and those who speak alike). */
const QUOTA_CODES: ReadonlySet<string | null> = new Set([
  'insufficient_quota',
  'quota_exceeded',
  'daily_limit_exceeded',
])
/** What is used up for longer. That more may be had by paying, limits of a minute say, too. */
const QUOTA =
  /\bquota\b[^.]{0,40}(exceeded|exhausted|reached|used up)|(exceeded|exhausted|reached)[^.]{0,40}\bquota\b|(insufficient|not enough|out of|no more) (quota|credit|balance|funds)|per[ _-]?day\b|\bdaily\b|\b[RT]PD\b/i
const OF_A_MINUTE = /per[ _-]?(min(ute)?|sec(ond)?)(\b|_)|\b[RT]P[MS]\b/i

const OF_CREDENTIAL: Readonly<Record<number, string>> = {
  401: 'it is wrong, or no longer good',
  402: 'its account has to be paid, or its quota is used up',
  403: 'it, or its account, may not do this',
}

/** What a free probe says of a credential that it was refused with as a wrong one. */
export const toRefusedByProbe = (reason: string): CredentialFailure => ({
  ...{ state: 'refused', reason, forMs: REFUSED_MS },
})

/** Whether a failure is that of the credential, and not of the request or the upstream: null where it is not. */
export function toCredentialFailure(failure: ToldFailure): CredentialFailure | null {
  const { kind, status, code, message, retryAfterMs, isOwnLimit } = failure
  if (kind !== 'status' || status === null || isOwnLimit) return null
  const isOfRequest = isUnaffordable(failure)
  const why = isOfRequest ? UNAFFORDABLE : OF_CREDENTIAL[status]
  if (why !== undefined)
    return {
      state: status === 402 ? 'out_of_quota' : 'refused',
      reason: `it answered ${status}: ${why}`,
      // Others may be right with it: a 403 may be about this model, or this prompt, and a smaller request may have credit enough.
      forMs: status === 403 || isOfRequest ? 0 : REFUSED_MS,
    }
  const waitMs = retryAfterMs ?? MIN_QUOTA_MS
  if (status !== 429 || waitMs < MIN_QUOTA_MS) return null
  const isQuota =
    QUOTA_CODES.has(code) || (QUOTA.test(message) && (retryAfterMs !== null || !OF_A_MINUTE.test(message)))
  if (!isQuota) return null
  return {
    state: 'out_of_quota',
    reason: 'it answered 429: its quota is used up',
    forMs: Math.min(waitMs, MAX_QUOTA_MS),
  }
}

/**
 * What a status says of an upstream that was asked something for free, such as `/models`. Not every server has that, and some fail at
 * it while they chat: whatever else it says, it answers.
 *
 * @param ofWrongKey statuses of a credential that is wrong.
 */
export function toReadiness(asked: string, status: number, ofWrongKey: readonly number[] = [401]): Readiness {
  if (status === 200) return { state: 'ready' }
  const answered = `its ${asked} answered ${status}`
  if (status >= 500 && status !== 501) return { state: 'degraded', reason: answered }
  const isWrong = ofWrongKey.includes(status)
  const refusal = toStatusRefusal(isWrong ? 401 : status)
  if (refusal?.of !== 'upstream') return { state: 'unknown' }
  return { state: 'refused', reason: `${answered}: ${refusal.why}`, isWrong }
}

/** The same of the list of models. */
export const toListReadiness = (status: number): Readiness => toReadiness('/models', status)

/** Reads `retry-after-ms` or `retry-after` (RFC 9110, 10.2.3), in ms; undefined where neither tells. */
export function toRetryAfterMs(headers: Pick<Incoming, 'header'>): number | undefined {
  const ms = Number(headers.header('retry-after-ms') ?? Number.NaN)
  if (Number.isFinite(ms) && ms >= 0) return ms
  const header = headers.header('retry-after')
  if (header === null) return undefined
  const seconds = Number(header)
  if (Number.isFinite(seconds) && seconds >= 0) return seconds * 1000
  // A date is compared with the upstream's own clock; without that it says nothing, because ours may differ.
  const waitMs = toMs(header) - toMs(headers.header('date'))
  return Number.isNaN(waitMs) ? undefined : Math.max(0, waitMs)
}

/** An HTTP date; NaN for anything else. */
const toMs = (date: string | null) => (date?.endsWith(' GMT') ? Date.parse(date) : Number.NaN)
