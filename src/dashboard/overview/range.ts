/** The overview's time range, in columns of UTC hours or days, and its form in the URL. */
import { keysOf } from '../../domain/json.ts'
import { DAY_MS, dayOf, HOUR_MS } from '../../domain/time.ts'
import { toDay, toMoment } from '../figures/figures.ts'

const NAMED = {
  today: { title: 'Today', days: 1, text: 'today', before: 'by this time yesterday' },
  '7d': { title: '7 days', days: 7, text: 'in the last 7 days', before: 'the previous 7 days' },
  '30d': { title: '30 days', days: 30, text: 'in the last 30 days', before: 'the previous 30 days' },
} as const

type Named = keyof typeof NAMED

export const RANGES = keysOf(NAMED).map((name) => [name, NAMED[name].title] as const)

export type Wanted = { name: Named } | { name: 'custom'; sinceMs: number; untilMs: number }

export interface Range {
  name: Wanted['name']
  sinceMs: number
  /** Null if it includes the current hour. */
  untilMs: number | null
  /** Length of a column. */
  stepMs: number
  /** Dimension in usage reports. */
  by: 'hour' | 'day'
  /** Start of each column, empty ones included; the last may be incomplete. */
  columns: readonly number[]
  /** `in the last 7 days`, `from Nov 3 to Nov 9`. */
  text: string
  /** The previous period, up to the same point in its last column. */
  before: { sinceMs: number; untilMs: number; text: string }
}

/** Longer ranges are shown by day. */
const MAX_HOURS = 48
/** Columns a chart has room for. */
const MAX_DAYS = 366

/** Reads `range=7d`, or `from` and `to`; 7 days if missing or invalid. */
export function toWanted(query: Pick<URLSearchParams, 'get'>, nowMs: number): Wanted {
  const [sinceMs, untilMs] = [toInstant(query.get('from'), 0), toInstant(query.get('to'), DAY_MS)]
  if (sinceMs !== null && untilMs !== null && sinceMs < untilMs && sinceMs <= nowMs)
    return { name: 'custom', sinceMs, untilMs }
  return { name: RANGES.find(([name]) => name === query.get('range'))?.[0] ?? '7d' }
}

/** Parses `2026-11-22` or `2026-11-22T14`. @param dayMs added to a day without an hour */
function toInstant(text: string | null, dayMs: number): number | null {
  const [, day = '', hour] = /^(\d{4}-\d\d-\d\d)(?:T(\d\d))?$/.exec(text ?? '') ?? []
  const ms = Date.parse(`${day}T${hour ?? '00'}:00:00Z`)
  if (Number.isNaN(ms)) return null
  return hour === undefined ? ms + dayMs : ms
}

/** @param untilMs exclusive; in the URL, the last day is inclusive */
export const toQuery = (sinceMs: number, untilMs: number): { range: null; from: string; to: string } => ({
  range: null,
  from: toIsoText(sinceMs, sinceMs),
  to: toIsoText(untilMs, untilMs - DAY_MS),
})

const toIsoText = (ms: number, dayMs: number) =>
  dayOf(ms) === ms ? new Date(dayMs).toISOString().slice(0, 10) : new Date(ms).toISOString().slice(0, 13)

export function toRange(wanted: Wanted, nowMs: number): Range {
  const { sinceMs, untilMs } = toWhole(wanted, nowMs)
  const spanMs = untilMs - sinceMs
  const by = spanMs <= MAX_HOURS * HOUR_MS ? 'hour' : 'day'
  const stepMs = by === 'hour' ? HOUR_MS : DAY_MS
  const columns = Array.from({ length: Math.ceil(spanMs / stepMs) }, (_, at) => sinceMs + at * stepMs)
  const { text, before } =
    wanted.name === 'custom'
      ? { text: toSpanText(sinceMs, untilMs, nowMs), before: `the previous ${toLength(spanMs)}` }
      : NAMED[wanted.name]
  const isRunning = untilMs > nowMs
  return {
    ...{ name: wanted.name, sinceMs, untilMs: isRunning ? null : untilMs, stepMs, by, text },
    columns: columns.filter((ms) => ms <= nowMs),
    before: {
      sinceMs: sinceMs - spanMs,
      untilMs: (isRunning ? nowMs : untilMs) - spanMs,
      text: `than ${before}`,
    },
  }
}

/** Rounds to whole days if shown by day. */
function toWhole(wanted: Wanted, nowMs: number): { sinceMs: number; untilMs: number } {
  if (wanted.name !== 'custom') {
    const untilMs = dayOf(nowMs) + DAY_MS
    return { sinceMs: untilMs - NAMED[wanted.name].days * DAY_MS, untilMs }
  }
  if (wanted.untilMs - wanted.sinceMs <= MAX_HOURS * HOUR_MS) return wanted
  const untilMs = dayOf(wanted.untilMs + DAY_MS - 1)
  return { sinceMs: Math.max(dayOf(wanted.sinceMs), untilMs - MAX_DAYS * DAY_MS), untilMs }
}

/** `day`, `7 days`, `hour`, `5 hours`. */
function toLength(spanMs: number): string {
  const [unit, ms] = spanMs % DAY_MS === 0 ? ['day', DAY_MS] : ['hour', HOUR_MS]
  return spanMs === ms ? unit : `${Math.round(spanMs / ms)} ${unit}s`
}

/** `on Nov 22`, `from Nov 3 to Nov 9` (inclusive), `from Nov 22, 10:00 to 14:00`. */
function toSpanText(sinceMs: number, untilMs: number, nowMs: number): string {
  const isDays = dayOf(sinceMs) === sinceMs && dayOf(untilMs) === untilMs
  const toText = (ms: number) => (isDays ? toDay(ms, nowMs, 'UTC') : toMoment(ms, nowMs, 'UTC'))
  const last = isDays ? untilMs - DAY_MS : untilMs
  if (isDays && last === sinceMs) return `on ${toText(sinceMs)}`
  const isOneDay = dayOf(sinceMs) === dayOf(untilMs - 1) && dayOf(untilMs) === dayOf(sinceMs)
  return `from ${toText(sinceMs)} to ${isOneDay ? toText(last).slice(-5) : toText(last)}`
}

/** As query parameters of the API and the list of requests. */
export const toSpan = ({
  sinceMs,
  untilMs,
}: Pick<Range, 'sinceMs' | 'untilMs'>): { since: string; until?: string } => ({
  since: String(sinceMs),
  ...(untilMs !== null && { until: String(untilMs) }),
})

/** The span of the columns between two positions, in either order; null if that is the whole range or a single hour. */
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
