/** Labels, filters, and call bars of requests. */

import type { ChargeDocument } from '../../documents/request.ts'
import { timeOfId } from '../../domain/id.ts'
import { keysOf } from '../../domain/json.ts'
import { REQUEST_FILTERS, REQUEST_STATUSES } from '../../domain/report-filters.ts'
import type { Fault } from '../../domain/request-errors.ts'
import { capitalize } from '../../domain/text.ts'
import { HOUR_MS, hourOf, toPastMs } from '../../domain/time.ts'
import { COUNT_SOURCE_TEXTS, toUnitPriceText, toUnitTexts, toUnitWords, UNIT_NAMES, UNITS } from '../../domain/units.ts'
import { toDoubt } from '../../domain/usage.ts'
import { toExactCount, toMoment, toPerMillion } from '../figures/figures.ts'
import { type Filters, toGiven } from '../reports/filters.ts'
import { STATUS_TEXTS } from './statuses.ts'

type Call = ChargeDocument['calls'][number]

export const REASONS: Readonly<Record<Call['reason'], string>> = {
  first: 'first call',
  retry: 'retry',
  fallback: 'fallback',
  limit: 'fallback: the previous upstream was at its limit',
  fan_out: 'one of several choices',
  schema: 'retry: the response did not match the schema',
  within: 'another model, called by the upstream itself',
}

export const FAULTS: Readonly<Record<Fault, string>> = {
  client: 'the client',
  limit: 'a limit set in Tollgate',
  upstream: 'the upstream',
  tollgate: 'Tollgate',
}

/** Charge basis of calls that are not charged by tokens. */
export const BASES: Readonly<Record<Exclude<Call['basis'], 'tokens'>, string>> = {
  reported: 'Charged as reported by the upstream.',
  free: 'Free upstream.',
  nothing: 'Failed before the first token; not charged.',
  reserve: 'The server stopped before it finished; charged the reserved amount.',
  open: 'In progress.',
  unknown: 'The price it was charged at is no longer recorded.',
}

type TokenColumn = Extract<keyof ChargeDocument, `${string}_tokens`>

const DETAILS: Readonly<
  Record<Exclude<TokenColumn, 'prompt_tokens' | 'completion_tokens' | `reserved_${string}`>, string>
> = {
  cached_tokens: 'cached input',
  cache_write_tokens: 'cache writes',
  cache_write_1h_tokens: '1-hour cache writes',
  tool_prompt_tokens: 'provider tool input',
  reasoning_tokens: 'reasoning',
  image_tokens: 'image input',
  image_completion_tokens: 'image output',
  audio_prompt_tokens: 'audio input',
  audio_completion_tokens: 'audio output',
}

export function toTokensText(request: ChargeDocument): string {
  const { prompt_tokens: prompt, completion_tokens: completion } = request
  const counted = keysOf(DETAILS).map((name) => [request[name], DETAILS[name]] as const)
  const details = [
    ...counted.filter(([count]) => count > 0).map(([count, text]) => `${toExactCount(count)} ${text}`),
    ...toUnitTexts(request, toExactCount),
  ]
  if (request.mode !== null) details.push(`served as ${request.mode}`)
  if (request.counted_by !== null) details.push(COUNT_SOURCE_TEXTS[request.counted_by])
  return `${[`${toExactCount(prompt)} input, ${toExactCount(completion)} output`, ...details].join('; ')}.`
}

/** @param names catalog price fields without a price */
export function toUnpricedText(names: readonly string[], mode: string | null): string {
  const told = names.map((name) => (name === 'mode' ? `calls served as ${mode}` : (UNPRICED[name] ?? name)))
  const doubt = toDoubt(names, mode)
  return `${capitalize(doubt)}: no price is set for ${told.join(', ') || 'its model'}.`
}

const UNPRICED: Readonly<Record<string, string>> = {
  input_cache_write: 'cache writes',
  input_cache_write_1h: '1-hour cache writes',
  size: 'images of this size and quality',
  ...Object.fromEntries(UNIT_NAMES.map((name) => [UNITS[name].price, UNITS[name].many])),
  audio: 'audio input',
  audio_completion: 'audio output',
  image_token_completion: 'image output',
}

const KINDS: Readonly<Record<string, string>> = {
  ...{ prompt: 'input', completion: 'output', cache_read: DETAILS.cached_tokens },
  ...{ cache_write: DETAILS.cache_write_tokens, cache_write_1h: DETAILS.cache_write_1h_tokens },
  ...{ audio_prompt: DETAILS.audio_prompt_tokens, audio_completion: DETAILS.audio_completion_tokens },
  ...{ image_prompt: DETAILS.image_tokens, image_completion: DETAILS.image_completion_tokens },
}

/** `cache_read` to `cached input`. */
export const toKindText = (kind: string): string => KINDS[kind] ?? toUnitWords(kind, 2) ?? kind.replaceAll('_', ' ')

/** A ready model for an example request, the free demo if there; null without models. */
export function toExampleModel(models: readonly { slug: string; is_ready: boolean | null }[]): string | null {
  const ready = models.filter(({ is_ready }) => is_ready !== false)
  return (ready.find(({ slug }) => slug === 'tollgate/demo') ?? ready[0] ?? models[0])?.slug ?? null
}

/** Unit price; per million for tokens. */
export function toEachText(kind: string, usd: string): string {
  if (kind === 'request') return `$${usd}`
  return toUnitPriceText(kind, usd) ?? `${toPerMillion(usd)} per million`
}

/** When a request with this ID began; null if it isn't an ID of Tollgate's, such as an upstream's. */
export function toHourOfId(id: string, nowMs: number): number | null {
  const [hex = ''] = /[0-9a-f]{32}$/.exec(id) ?? []
  const ms = timeOfId(hex)
  return ms > 0 && ms < nowMs + HOUR_MS ? hourOf(ms) : null
}

interface Failed {
  http_status: number | null
  error_code: string | null
}

/** `503 upstream_error`; '' without an error. */
export const toFailureText = ({ http_status: status, error_code: code }: Failed): string =>
  code === null ? '' : [status, code].filter((part) => part !== null).join(' ')

/** The API's filters, `state` (`errors` or a status), and a period (`24h`, or ms since the epoch). */
export const FILTER_NAMES = [...REQUEST_FILTERS, 'state', 'since', 'until'] as const
export type RequestFilters = Filters<(typeof FILTER_NAMES)[number]>

export const STATES = [
  ['', 'All statuses'],
  ['errors', 'Errors'],
  ...REQUEST_STATUSES.map((status) => [status, STATUS_TEXTS[status]] as const),
] as const

export const CUSTOM = 'custom'

/** Converts periods for the API, so that a link means the same on another day. */
export const PERIODS = [
  { name: '', title: 'Any time', since: '', until: '' },
  { name: '1h', title: 'Last hour', since: '1h', until: '' },
  { name: '24h', title: 'Last 24 hours', since: '24h', until: '' },
  { name: 'today', title: 'Today (UTC)', since: 'today', until: '' },
  { name: 'yesterday', title: 'Yesterday (UTC)', since: 'yesterday', until: 'today' },
  { name: '7d', title: 'Last 7 days', since: '7d', until: '' },
  { name: CUSTOM, title: 'Custom', since: '24h', until: '' },
] as const

type Span = Pick<RequestFilters, 'since' | 'until'>

export const spanOf = ['since', 'until'] as const

export const toPeriod = ({ since, until }: Span): string =>
  PERIODS.find((one) => one.name !== CUSTOM && one.since === since && one.until === until)?.name ?? CUSTOM

const MS = /^\d{10,15}$/

const toTimeMs = (text: string, nowMs: number) => (MS.test(text) ? Number(text) : toPastMs(text, nowMs))

/** `2026-11-22T14:00`, UTC; '' for none. */
export function toInputTime(text: string, nowMs: number): string {
  const ms = text === '' ? null : toTimeMs(text, nowMs)
  return ms === null ? '' : new Date(ms).toISOString().slice(0, 16)
}

/** A custom period starts with the shown one. */
export function toPeriodValue(name: string, before: Span, nowMs: number): Span {
  const { since, until } = PERIODS.find((one) => one.name === name) ?? PERIODS[0]
  if (name !== CUSTOM) return { since, until }
  return { since: toInputTime(before.since || since, nowMs), until: toInputTime(before.until, nowMs) }
}

/** Accepts the times in either order. */
export function toCustom(since: string, until: string): Span {
  return until !== '' && until < since ? { since: until, until: since } : { since, until }
}

/** '' without a period. */
export function toPeriodText(span: Span, nowMs: number): string {
  const known = PERIODS.find(({ name }) => name !== '' && name === toPeriod(span))
  if (known === undefined || known.name !== CUSTOM) return known?.title ?? ''
  const [since, until] = spanOf.map((name) => {
    const ms = span[name] === '' ? null : toTimeMs(span[name], nowMs)
    return ms === null ? span[name] : toMoment(ms, nowMs, 'UTC')
  }) as [string, string]
  if (since === '') return `Until ${until} UTC`
  return until === '' ? `Since ${since} UTC` : `${since} to ${until} UTC`
}

/** Live requests have no time filter. */
export const toLiveQuery = ({ state, since, until, ...named }: RequestFilters) => ({
  ...toGiven(named),
  ...(state === 'errors' ? { errors: true } : toGiven({ status: state })),
})

export const toListQuery = (filters: RequestFilters, before: string | null, limit?: number) => ({
  ...toLiveQuery(filters),
  ...toGiven({ since: filters.since, until: filters.until, before: before ?? '' }),
  ...(limit === undefined ? {} : { limit }),
})

/** Merges live and loaded requests by ID, newest first. */
export function merge<Row extends { id: string }>(arrived: readonly Row[], read: readonly Row[], most: number): Row[] {
  const rows = new Map([...read, ...arrived].map((row) => [row.id, row]))
  // IDs start with their time.
  return [...rows.values()].sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, most)
}

interface Timed {
  created_ms: number
  /** Null while in progress. */
  duration_ms: number | null
  first_token_ms: number | null
}

/** In percent of the total duration. */
interface CallBar {
  start: number
  /** Until the first token, or the end without one. */
  waiting: number
  /** After the first token. */
  answering: number
}

/** Keeps very short calls visible. */
const MIN = 0.5

/** A bar for each call, and the total duration so far, in ms. */
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
