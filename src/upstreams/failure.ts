/** Reads upstream failures the same way for all dialects: the cause, the wait, and the text that clients may see. */
import { LOOP_STATUS, type UpstreamError } from '../domain/error.ts'
import type { Readiness } from './backend.ts'

/** Errors about the request itself. The client should see them, and the next upstream would respond the same. */
const OF_THE_REQUEST: ReadonlySet<number | null> = new Set([400, 413, 422])

export const blamesTheRequest = (status: number | null): boolean => OF_THE_REQUEST.has(status)

export interface Refusal {
  /** Applies to all models of the upstream, or only to this one. */
  of: 'upstream' | 'target'
  /** True if other keys would get the same response. A 403 or 404 may be about this request. */
  isForEveryone: boolean
  /** Such as `payment required on the provider account`. */
  why: string
}

/** Statuses that blame this server's configuration: the credential or account, or the URL or model name. */
const REFUSALS: Readonly<Record<number, Refusal>> = {
  401: { of: 'upstream', isForEveryone: true, why: 'missing or invalid api_key' },
  402: { of: 'upstream', isForEveryone: true, why: 'payment required on the provider account' },
  403: {
    of: 'upstream',
    isForEveryone: false,
    why: 'api_key or provider account not permitted to do this',
  },
  404: {
    of: 'target',
    isForEveryone: false,
    why: "base_url, or the route's model, not found at the provider",
  },
  405: { of: 'target', isForEveryone: false, why: 'base_url is not a chat API' },
  // A client may have sent the loop header itself.
  [LOOP_STATUS]: {
    of: 'upstream',
    isForEveryone: false,
    why: 'base_url leads back to a Tollgate server that the request has passed, or through too many',
  },
}

export const toStatusRefusal = (status: number): Refusal | null => REFUSALS[status] ?? null

/** Our code for a 402 of an account with less credit than this request may cost; a smaller request may succeed. */
export const UNAFFORDABLE_CODE = 'request_unaffordable'

const isUnaffordable = ({ status, code }: Pick<UpstreamError, 'status' | 'code'>): boolean =>
  status === 402 && code === UNAFFORDABLE_CODE

/** The configuration problem that a failure shows; null if there is none, or if only this request is at fault. */
export const toRefusal = (failure: Pick<UpstreamError, 'status' | 'code'>): Refusal | null =>
  isUnaffordable(failure) ? null : toStatusRefusal(failure.status ?? 0)

const UNAFFORDABLE = 'not enough credit on the provider account for this request; try a smaller `max_tokens`'

export const toRefusalReason = (failure: Pick<UpstreamError, 'status' | 'code'>): string | null =>
  isUnaffordable(failure) ? UNAFFORDABLE : (toRefusal(failure)?.why ?? null)

export type FailureFacts = Pick<UpstreamError, 'kind' | 'status' | 'code' | 'message' | 'retryAfterMs' | 'isOwnLimit'>

/** Why a credential is suspended while another one may work. */
export interface CredentialFailure {
  state: 'refused' | 'out_of_quota'
  /** For an administrator, without the upstream's words. */
  reason: string
  forMs: number
}

/** For credentials that an administrator must fix. Tollgate can't know when that happens. */
const REFUSED_MS = 5 * 60_000
/** Shorter limits end before another credential would help. */
const MIN_QUOTA_MS = 60_000
/** The quota may be raised or paid for by then. */
const MAX_QUOTA_MS = 60 * 60_000
/** Error codes of a quota or account, whatever the message (platform.openai.com/docs/guides/error-codes, and compatible providers). */
const QUOTA_CODES: ReadonlySet<string | null> = new Set([
  'insufficient_quota',
  'quota_exceeded',
  'daily_limit_exceeded',
])
/** Messages of long-lasting quotas. Errors of per-minute limits also advertise paid plans. */
const QUOTA =
  /\bquota\b[^.]{0,40}(exceeded|exhausted|reached|used up)|(exceeded|exhausted|reached)[^.]{0,40}\bquota\b|(insufficient|not enough|out of|no more) (quota|credit|balance|funds)|per[ _-]?day\b|\bdaily\b|\b[RT]PD\b/i
const OF_A_MINUTE = /per[ _-]?(min(ute)?|sec(ond)?)(\b|_)|\b[RT]P[MS]\b/i

const OF_CREDENTIAL: Readonly<Record<number, string>> = {
  401: 'invalid or expired credential',
  402: 'payment required on the provider account, or quota exceeded',
  403: 'credential or account not permitted to do this',
}

export const toRefusedByProbe = (reason: string): CredentialFailure => ({
  ...{ state: 'refused', reason, forMs: REFUSED_MS },
})

/** Null unless the credential is at fault, rather than the request or the upstream. */
export function toCredentialFailure(failure: FailureFacts): CredentialFailure | null {
  const { kind, status, code, message, retryAfterMs, isOwnLimit } = failure
  if (kind !== 'status' || status === null || isOwnLimit) return null
  const isOfRequest = isUnaffordable(failure)
  const why = isOfRequest ? UNAFFORDABLE : OF_CREDENTIAL[status]
  if (why !== undefined)
    return {
      state: status === 402 ? 'out_of_quota' : 'refused',
      reason: `returned ${status}: ${why}`,
      // The credential may work for other requests: a 403 may be about this model or prompt, and a smaller request may be affordable.
      forMs: status === 403 || isOfRequest ? 0 : REFUSED_MS,
    }
  const waitMs = retryAfterMs ?? MIN_QUOTA_MS
  if (status !== 429 || waitMs < MIN_QUOTA_MS) return null
  const isQuota =
    QUOTA_CODES.has(code) || (QUOTA.test(message) && (retryAfterMs !== null || !OF_A_MINUTE.test(message)))
  if (!isQuota) return null
  return {
    state: 'out_of_quota',
    reason: 'returned 429: quota exceeded',
    forMs: Math.min(waitMs, MAX_QUOTA_MS),
  }
}

/**
 * Some servers have no `/models`, and others fail at it while chats work. Any other status means that the server responds.
 * @param ofWrongKey statuses that mean an invalid credential.
 */
export function toReadiness(asked: string, status: number, ofWrongKey: readonly number[] = [401]): Readiness {
  if (status === 200) return { state: 'ready' }
  const answered = `${asked} returned ${status}`
  if (status >= 500 && status !== 501) return { state: 'degraded', reason: answered }
  const isWrong = ofWrongKey.includes(status)
  const refusal = toStatusRefusal(isWrong ? 401 : status)
  if (refusal?.of !== 'upstream') return { state: 'unknown' }
  return { state: 'refused', reason: `${answered}: ${refusal.why}`, isWrong }
}

export const toListReadiness = (status: number): Readiness => toReadiness('/models', status)
