/**
 * The span of time that the overview shows, in columns: hours, or whole days. What the address says of it, and what is said of it. Days
 * are those of budgets: UTC. Pure.
 */
import { DAY_MS, dayOf, HOUR_MS } from '../../domain/time.ts'
import { toDay, toMoment } from '../figures/figures.ts'

export const RANGES = [
  ['today', 'Today'],
  ['7d', '7 days'],
  ['30d', '30 days'],
] as const

type Named = (typeof RANGES)[number][0]

/** One that the address names, or one from then until then. */
export type Wanted = { name: Named } | { name: 'custom'; sinceMs: number; untilMs: number }

export interface Range {
  name: Wanted['name']
  sinceMs: number
  /** Null where it goes on: what the hour that runs has is in it. */
  untilMs: number | null
  /** How much time a column has, and what the reports call it. */
  stepMs: number
  by: 'hour' | 'day'
  /** Beginnings of its columns, those included that nothing was asked in; the last one may run. */
  columns: readonly number[]
  /** As a part of a sentence: `in 7 days`, `from Nov 3 to Nov 9`. */
  text: string
  /** The same span once more before it, as far into its last column. */
  before: { sinceMs: number; untilMs: number; text: string }
}

/** What is longer is shown by the day. */
const MOST_HOURS = 48
/** Columns that a picture has room for. */
const MOST_DAYS = 366

const DAYS = { today: 1, '7d': 7, '30d': 30 } as const
const TEXTS = { today: 'today', '7d': 'in 7 days', '30d': 'in 30 days' } as const
const BEFORE = { today: 'than yesterday by now', '7d': 'than the 7 days before', '30d': 'than the 30 days before' }

/** What an address says: `range=7d`, or `from` and `to`. A week where it says nothing, or nothing that can be shown. */
export function toWanted(query: Pick<URLSearchParams, 'get'>, nowMs: number): Wanted {
  const [sinceMs, untilMs] = [toInstant(query.get('from'), 0), toInstant(query.get('to'), DAY_MS)]
  if (sinceMs !== null && untilMs !== null && sinceMs < untilMs && sinceMs <= nowMs)
    return { name: 'custom', sinceMs, untilMs }
  return { name: RANGES.find(([name]) => name === query.get('range'))?.[0] ?? '7d' }
}

/** A day, `2026-11-22`, or an hour of one, `2026-11-22T14`. @param dayMs where in a day one without an hour is. */
function toInstant(text: string | null, dayMs: number): number | null {
  const [, day = '', hour] = /^(\d{4}-\d\d-\d\d)(?:T(\d\d))?$/.exec(text ?? '') ?? []
  const ms = Date.parse(`${day}T${hour ?? '00'}:00:00Z`)
  if (Number.isNaN(ms)) return null
  return hour === undefined ? ms + dayMs : ms
}

/** What the address says of a span of whole hours. A day that is the last one is in it. */
export const toQuery = (sinceMs: number, untilMs: number): { range: null; from: string; to: string } => ({
  range: null,
  from: toIsoText(sinceMs, sinceMs),
  to: toIsoText(untilMs, untilMs - DAY_MS),
})

const toIsoText = (ms: number, dayMs: number) =>
  dayOf(ms) === ms ? new Date(dayMs).toISOString().slice(0, 10) : new Date(ms).toISOString().slice(0, 13)

export function toRange(wanted: Wanted, nowMs: number): Range {
  if (wanted.name === 'custom') return toCustom(wanted, nowMs)
  const { name } = wanted
  const spanMs = DAYS[name] * DAY_MS
  const sinceMs = dayOf(nowMs) + DAY_MS - spanMs
  return {
    ...{ name, untilMs: null, text: TEXTS[name] },
    ...toColumns(sinceMs, sinceMs + spanMs, nowMs),
    before: { sinceMs: sinceMs - spanMs, untilMs: nowMs - spanMs, text: BEFORE[name] },
  }
}

function toCustom(wanted: { sinceMs: number; untilMs: number }, nowMs: number): Range {
  const isByHour = wanted.untilMs - wanted.sinceMs <= MOST_HOURS * HOUR_MS
  // Columns of days are whole days.
  const untilMs = isByHour ? wanted.untilMs : dayOf(wanted.untilMs + DAY_MS - 1)
  const sinceMs = isByHour ? wanted.sinceMs : Math.max(dayOf(wanted.sinceMs), untilMs - MOST_DAYS * DAY_MS)
  const spanMs = untilMs - sinceMs
  const isRunning = untilMs > nowMs
  const days = Math.round(spanMs / DAY_MS)
  const before = spanMs % DAY_MS === 0 ? (days === 1 ? 'day' : `${days} days`) : toHours(spanMs)
  return {
    ...{ name: 'custom', untilMs: isRunning ? null : untilMs, text: toSpanText(sinceMs, untilMs, nowMs) },
    ...toColumns(sinceMs, untilMs, nowMs),
    before: {
      sinceMs: sinceMs - spanMs,
      untilMs: (isRunning ? nowMs : untilMs) - spanMs,
      text: `than the ${before} before`,
    },
  }
}

const toHours = (spanMs: number) => (spanMs === HOUR_MS ? 'hour' : `${Math.round(spanMs / HOUR_MS)} hours`)

function toColumns(sinceMs: number, untilMs: number, nowMs: number) {
  const by = untilMs - sinceMs <= MOST_HOURS * HOUR_MS ? 'hour' : 'day'
  const stepMs = by === 'hour' ? HOUR_MS : DAY_MS
  const all = Array.from({ length: Math.ceil((untilMs - sinceMs) / stepMs) }, (_, at) => sinceMs + at * stepMs)
  return { sinceMs, stepMs, by, columns: all.filter((ms) => ms <= nowMs) } as const
}

/** `on Nov 22`, `from Nov 3 to Nov 9`, `from Nov 22, 10:00 to 14:00`. The last day is in it, an hour is when it ends. */
function toSpanText(sinceMs: number, untilMs: number, nowMs: number): string {
  const isDays = dayOf(sinceMs) === sinceMs && dayOf(untilMs) === untilMs
  const toText = (ms: number) => (isDays ? toDay(ms, nowMs, 'UTC') : toMoment(ms, nowMs, 'UTC'))
  const last = isDays ? untilMs - DAY_MS : untilMs
  if (isDays && last === sinceMs) return `on ${toText(sinceMs)}`
  const isOneDay = dayOf(sinceMs) === dayOf(untilMs - 1) && dayOf(untilMs) === dayOf(sinceMs)
  return `from ${toText(sinceMs)} to ${isOneDay ? toText(last).slice(-5) : toText(last)}`
}

/** As the API and the list of requests are asked for it. */
export const toSpan = ({
  sinceMs,
  untilMs,
}: Pick<Range, 'sinceMs' | 'untilMs'>): { since: string; until?: string } => ({
  since: String(sinceMs),
  ...(untilMs !== null && { until: String(untilMs) }),
})

/** The columns from one to another, in whichever order, as a span of their own; null where that is all there is, or one hour. */
export function toPart(
  { columns, stepMs }: Range,
  from: number,
  to: number,
): { sinceMs: number; untilMs: number } | null {
  const [first, last] = [from, to]
    .map((at) => Math.min(columns.length - 1, Math.max(0, Math.round(at))))
    .sort((a, b) => a - b) as [number, number]
  const [sinceMs, lastMs] = [columns[first], columns[last]]
  if (sinceMs === undefined || lastMs === undefined) return null
  const isAll = first === 0 && last === columns.length - 1
  if (isAll && !(columns.length === 1 && stepMs === DAY_MS)) return null
  return { sinceMs, untilMs: lastMs + stepMs }
}
