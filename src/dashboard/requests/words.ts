/** Requests and their calls in words. Pure. */

import type { ChargeDocument } from '../../documents/request.ts'
import { keysOf } from '../../domain/json.ts'
import { REQUEST_FILTERS, REQUEST_STATUSES, type RequestStatus } from '../../domain/report-filters.ts'
import { toDoubt } from '../../domain/usage.ts'
import { toExactCount, toPerMillion } from '../figures/figures.ts'
import { type Filters, toGiven } from '../reports/filters.ts'

export const STATUS_KINDS = { ok: 'good', failed: 'bad', cut: 'warn', abandoned: 'warn', open: 'off' } as const

type Call = ChargeDocument['calls'][number]

/** Why a call was made after the first one. */
export const REASONS: Readonly<Record<Call['reason'], string>> = {
  first: 'first call',
  retry: 'tried again',
  fallback: 'fallback',
  limit: 'another upstream: the one before was at its limit',
  fan_out: 'one of several answers',
  schema: 'asked again: the answer did not fit its schema',
  within: 'another model, asked by the upstream within a call',
}

/** Why a call is charged as it is, where that is not by its tokens. */
export const BASES: Readonly<Record<Exclude<Call['basis'], 'tokens'>, string>> = {
  reported: 'Its upstream says what it charges, and that counts.',
  free: 'Where it went, nothing has a price.',
  nothing: 'It failed before its first word, which costs nothing.',
  reserve: 'The server was gone before it ended: it costs what was reserved.',
  open: 'It is under way.',
  unknown: 'The price that it was charged by is not on record any more.',
}

type TokenColumn = Extract<keyof ChargeDocument, `${string}_tokens`>

/** What is told of the tokens beside all that were read and written. */
const DETAILS: Readonly<
  Record<Exclude<TokenColumn, 'prompt_tokens' | 'completion_tokens' | `reserved_${string}`>, string>
> = {
  cached_tokens: 'of the prompt cached',
  cache_write_tokens: 'of the prompt written to a cache',
  cache_write_1h_tokens: 'of the prompt written to a cache for an hour',
  tool_prompt_tokens: 'of the prompt read by tools of the provider',
  reasoning_tokens: 'of the answer reasoning',
  image_tokens: 'of images',
  image_completion_tokens: 'of the answer images',
  audio_prompt_tokens: 'of the prompt audio',
  audio_completion_tokens: 'of the answer audio',
}

export function toTokensText(request: ChargeDocument): string {
  const { prompt_tokens: prompt, completion_tokens: completion, web_searches: searches, compute_ms: ms } = request
  const counted = keysOf(DETAILS).map((name) => [request[name], DETAILS[name]] as const)
  const details = [...counted, [searches, 'searches of the web'] as const, [ms, 'ms of compute'] as const]
    .filter(([count]) => count > 0)
    .map(([count, text]) => `${toExactCount(count)} ${text}`)
  if (request.mode !== null) details.push(`served as ${request.mode}`)
  return `${[`${toExactCount(prompt)} in the prompt, ${toExactCount(completion)} in the answer`, ...details].join('; ')}.`
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
  return kind === 'compute_ms' ? `$${usd} per second` : `${toPerMillion(usd)} per million`
}

interface Failed {
  http_status: number | null
  error_code: string | null
}

/** Such as `503 upstream_error`; '' for one that has neither. */
export const toFailureText = ({ http_status: status, error_code: code }: Failed): string =>
  code === null ? '' : [status, code].filter((part) => part !== null).join(' ')

/** Beside the filters of the API: `state`, which is `errors` or a status, how long ago or since when, and before when, in ms. */
export const FILTER_NAMES = [...REQUEST_FILTERS, 'state', 'since', 'until'] as const
export type RequestFilters = Filters<(typeof FILTER_NAMES)[number]>

const STATUS_TEXTS: Readonly<Record<RequestStatus, string>> = {
  ...{ ok: 'Succeeded', failed: 'Failed', cut: 'Interrupted', abandoned: 'Abandoned', open: 'In progress' },
}
export const STATES = [
  ['', 'All statuses'],
  ['errors', 'Errors'],
  ...REQUEST_STATUSES.map((status) => [status, STATUS_TEXTS[status]] as const),
] as const

export const TIMES = [
  ['', 'At any time'],
  ['1h', 'In the last hour'],
  ['24h', 'In the last 24 hours'],
  ['7d', 'In the last 7 days'],
] as const

/** What those who follow are asked with: what has just ended is of no other time. */
export const toLiveQuery = ({ state, since, until, ...named }: RequestFilters) => ({
  ...toGiven(named),
  ...(state === 'errors' ? { errors: true } : toGiven({ status: state })),
})

export const toListQuery = (filters: RequestFilters, before: string | null, limit: number) => ({
  ...toLiveQuery(filters),
  ...toGiven({ since: filters.since, until: filters.until, before: before ?? '' }),
  limit,
})

/** What has just ended before what was read before, the newest first, each once. */
export function merge<Row extends { id: string }>(arrived: readonly Row[], read: readonly Row[], most: number): Row[] {
  const rows = new Map([...read, ...arrived].map((row) => [row.id, row]))
  // Ids begin with their time.
  return [...rows.values()].sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, most)
}

interface Timed {
  created_ms: number
  /** Null while it is under way. */
  duration_ms: number | null
  first_token_ms: number | null
}

/** In percent of the whole. */
interface CallBar {
  start: number
  /** Until the first token; all of it where there was none. */
  waiting: number
  /** From then on. */
  answering: number
}

/** A call that took no time is still to be seen. */
const MIN = 0.5

/** A bar for each call, and how long all of it took, or has taken, in ms. */
export function toCallBars(request: Timed, calls: readonly Timed[], nowMs: number): { ms: number; bars: CallBar[] } {
  const endOf = ({ created_ms: start, duration_ms: took }: Timed) => (took === null ? nowMs : start + took)
  const startMs = request.created_ms
  const ms = Math.max(1, ...[request, ...calls].map((one) => endOf(one) - startMs))
  const toPercent = (part: number) => (Math.max(0, part) / ms) * 100
  const bars = calls.map((call) => {
    const took = endOf(call) - call.created_ms
    const waited = Math.min(call.first_token_ms ?? took, took)
    const start = Math.min(toPercent(call.created_ms - startMs), 100 - MIN)
    const waiting = Math.min(Math.max(MIN, toPercent(waited)), 100 - start)
    return { start, waiting, answering: Math.min(toPercent(took - waited), 100 - start - waiting) }
  })
  return { ms, bars }
}
