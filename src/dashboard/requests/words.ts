/** Requests and their calls in words. Pure. */
import { toDoubt } from '../../domain/mode.ts'
import { toPerMillion } from '../figures/prices.ts'

export const STATUS_KINDS = { ok: 'good', failed: 'bad', cut: 'warn', abandoned: 'warn', open: 'off' } as const

/** Why a call was made after the first one. */
export const REASONS: Readonly<Record<string, string>> = {
  first: 'first call',
  retry: 'tried again',
  fallback: 'fallback',
  limit: 'another upstream: the one before was at its limit',
  fan_out: 'one of several answers',
  schema: 'asked again: the answer did not fit its schema',
  within: 'another model, asked by the upstream within a call',
}

/** Why a call is charged as it is, where that is not by its tokens. */
export const BASES: Readonly<Record<string, string>> = {
  reported: 'Its upstream says what it charges, and that counts.',
  free: 'Where it went, nothing has a price.',
  nothing: 'It failed before its first word, which costs nothing.',
  reserve: 'The server was gone before it ended: it costs what was reserved.',
  open: 'It is under way.',
  unknown: 'The price that it was charged by is not on record any more.',
}

/** What of a call has no price, by the names that prices have in the catalogue. */
export function toUnpricedText(names: readonly string[], mode: string | null): string {
  const told = names.map((name) => (name === 'mode' ? `calls served as ${mode}` : (UNPRICED[name] ?? name)))
  const doubt = toDoubt(names, mode)
  return `${doubt[0]?.toUpperCase()}${doubt.slice(1)}: there is no price for ${told.join(', ') || 'its model'}.`
}

const UNPRICED: Readonly<Record<string, string>> = {
  input_cache_write: 'what is written to a cache',
  input_cache_write_1h: 'what is kept in a cache for an hour',
  web_search: 'searches of the web',
  audio: 'audio in the prompt',
  audio_completion: 'audio in the answer',
  image_token_completion: 'images in the answer',
}

/** Such as `cache read` of `cache_read`. */
export const toKindText = (kind: string): string =>
  kind === 'compute_ms' ? 'ms of compute' : kind.replaceAll('_', ' ')

/** What each of a kind costs: tokens by the million, as people compare them. */
export function toEachText(kind: string, usd: string): string {
  if (kind === 'request' || kind === 'web_searches') return `$${usd}`
  return kind === 'compute_ms' ? `$${usd} a second` : `${toPerMillion(usd)} per million`
}

interface Failed {
  http_status: number | null
  error_code: string | null
}

/** Such as `503 upstream_error`; '' for one that has neither. */
export const toFailureText = ({ http_status: status, error_code: code }: Failed): string =>
  code === null ? '' : [status, code].filter((part) => part !== null).join(' ')
