/** What went wrong with a provider, by the errors of `openid-client`: whose fault, and what of it may be logged. Pure. */
import type { LogFields } from '../../log.ts'
import { Unreachable } from './fetch.ts'

/** OAuth's own words (RFC 6749, sections 4.1.2.1 and 5.2) for what passes by itself, and for somebody who was not signed in. */
const PASSING = new Set(['server_error', 'temporarily_unavailable'])
const REFUSING = new Set([
  'access_denied',
  'invalid_grant',
  'login_required',
  'interaction_required',
  'consent_required',
])

/** Whether it may do well again by itself. */
export function isUnavailable(error: unknown): boolean {
  const { name, code, error: word = '', cause } = toParts(error)
  if (name === 'TimeoutError' || code === 'OAUTH_TIMEOUT' || PASSING.has(word)) return true
  return cause instanceof Unreachable || (cause instanceof Response && cause.status >= 500)
}

/** Whether the provider works and has not signed somebody in, or not with this code. */
export const wasRefused = (error: unknown): boolean => REFUSING.has(toParts(error).error ?? '')

/** Fixed sentences and codes: answers, claims and tokens hang deeper. */
export function toCause(error: unknown): LogFields {
  const { message, code, error: word, cause } = toParts(error)
  const below = cause instanceof Unreachable ? cause.cause : cause
  const { name, message: why, code: whyCode } = toParts(below)
  const reason = [message, ...(name === 'SyntaxError' || why === undefined ? [] : [why])].join(': ')
  const http = cause instanceof Response ? cause.status : undefined
  return { error: reason.slice(0, 300), code: code ?? whyCode, oauth_error: word?.slice(0, 100), http }
}

interface Parts {
  name?: string
  message?: string
  code?: string
  error?: string
  cause?: unknown
}

function toParts(error: unknown): Parts {
  if (!(error instanceof Error)) return {}
  const text = (field: 'code' | 'error') => {
    const value: unknown = field in error ? error[field as keyof Error] : undefined
    return typeof value === 'string' ? { [field]: value } : {}
  }
  return { name: error.name, message: error.message, cause: error.cause, ...text('code'), ...text('error') }
}
