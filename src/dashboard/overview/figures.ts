/** What the overview's charts, lists and marks draw, out of reports of usage and of failures, and where budgets are heading. Pure. */

import { toFirstId } from '../../domain/id.ts'
import { DAY_MS, dayOf, HOUR_MS } from '../../domain/time.ts'
import type { AuditEntry } from '../audit/words.ts'
import { toDelta, toPercent } from '../figures/figures.ts'
import type { Range } from './range.ts'

/** A group of a report, by its columns' names. */
type UsageFields = Readonly<Record<string, string | number | null>>

interface Series {
  name: string
  /** One a column. Null where nothing was asked: a gap, which is not 0. */
  values: readonly (number | null)[]
  total: number
  isEstimated: boolean
}

export const OTHER = 'other'
/** So many are told apart. */
const MOST = 7

const toNumber = (value: string | number | null | undefined) => Number(value ?? 0)

/** Which column a row belongs to; -1 for none. */
const toIndex = ({ columns, sinceMs, stepMs, by }: Range, row: UsageFields) => {
  const at = Math.floor((toNumber(row[`${by}_ms`]) - sinceMs) / stepMs)
  return at < columns.length ? at : -1
}

/**
 * Costs in nano-dollars by column, a series a model: the dearest ones, dearest first, and what the others come to.
 *
 * @param rows by time and model.
 */
export function toCosts(rows: readonly UsageFields[], range: Range): Series[] {
  const models = new Map<string, { values: (number | null)[]; total: number; isEstimated: boolean }>()
  const create = () => ({ values: range.columns.map((): number | null => null), total: 0, isEstimated: false })
  const add = (to: ReturnType<typeof create>, at: number, cost: number) => {
    to.values[at] = (to.values[at] ?? 0) + cost
    to.total += cost
  }
  for (const row of rows) {
    const at = toIndex(range, row)
    if (at < 0) continue
    const series = models.getOrInsertComputed(String(row.model), create)
    add(series, at, toNumber(row.cost_nano_usd))
    series.isEstimated ||= toNumber(row.estimated_cost_nano_usd) > 0
  }
  const ranked = [...models].map(([name, series]) => ({ name, ...series })).sort((a, b) => b.total - a.total)
  // One more is told by its name rather than called other.
  if (ranked.length <= MOST + 1) return ranked
  const other = { name: OTHER, ...create() }
  for (const { values, isEstimated } of ranked.slice(MOST)) {
    for (const [at, cost] of values.entries()) if (cost !== null) add(other, at, cost)
    other.isEstimated ||= isEstimated
  }
  return [...ranked.slice(0, MOST), other]
}

/** How high each series reaches on top of those before it. */
export function toStack(series: readonly Pick<Series, 'values'>[]): (number | null)[][] {
  let below: readonly (number | null)[] = []
  return series.map(({ values }) => {
    const reached = values.map((value, at) => {
      const under = below[at] ?? null
      return value === null && under === null ? null : (value ?? 0) + (under ?? 0)
    })
    below = reached
    return reached
  })
}

interface Column {
  ms: number
  requests: number
  failed: number
  cut: number
  /** Null where nothing was measured. */
  firstTokenP50Ms: number | null
  firstTokenP95Ms: number | null
  /** Of whole requests. */
  durationP50Ms: number | null
  durationP95Ms: number | null
}

/** What each column has. @param rows by time. */
export function toColumns(rows: readonly UsageFields[], range: Range): Column[] {
  const found = new Map(rows.map((row) => [toIndex(range, row), row]))
  return range.columns.map((ms, at) => {
    const row = found.get(at) ?? {}
    return {
      ...{ ms, requests: toNumber(row.requests), failed: toNumber(row.errors), cut: toNumber(row.cuts) },
      firstTokenP50Ms: toNullable(row.first_token_p50_ms),
      firstTokenP95Ms: toNullable(row.first_token_p95_ms),
      durationP50Ms: toNullable(row.duration_p50_ms),
      durationP95Ms: toNullable(row.duration_p95_ms),
    }
  })
}

const toNullable = (value: string | number | null | undefined) => (value == null ? null : Number(value))

interface Totals {
  costNanoUsd: number
  isEstimated: boolean
  requests: number
  failed: number
  cut: number
  /** Of the requests, those that failed or were cut, from 0 to 1; null without any. */
  badShare: number | null
  firstTokenP50Ms: number | null
  firstTokenP95Ms: number | null
  durationP50Ms: number | null
  durationP95Ms: number | null
}

export function toTotals(total: UsageFields): Totals {
  const [requests, failed, cut] = [total.requests, total.errors, total.cuts].map(toNumber) as [number, number, number]
  return {
    costNanoUsd: toNumber(total.cost_nano_usd),
    isEstimated: toNumber(total.estimated_cost_nano_usd) > 0,
    ...{ requests, failed, cut },
    badShare: requests === 0 ? null : (failed + cut) / requests,
    firstTokenP50Ms: toNullable(total.first_token_p50_ms),
    firstTokenP95Ms: toNullable(total.first_token_p95_ms),
    durationP50Ms: toNullable(total.duration_p50_ms),
    durationP95Ms: toNullable(total.duration_p95_ms),
  }
}

export type List = 'key' | 'model' | 'team' | 'upstream' | 'user'

export interface Share {
  /** What it is asked for by; null where it is nobody's. */
  id: string | null
  name: string
  costNanoUsd: number
  isEstimated: boolean
  requests: number
  /** Of the cost of all; of their requests where nothing cost anything. */
  share: number
}

/** The first few of a report by one thing, and what share of the whole each is. */
export function toShares(by: List, { usage, total }: { usage: readonly UsageFields[]; total: UsageFields }): Share[] {
  const whole = toTotals(total)
  return usage.map((row) => {
    const { costNanoUsd, isEstimated, requests } = toTotals(row)
    const id = toId(by, row)
    return {
      ...{ id: id === null ? null : String(id), name: String(row[by] ?? id ?? `without a ${by}`) },
      ...{ costNanoUsd, isEstimated, requests },
      share: whole.costNanoUsd > 0 ? costNanoUsd / whole.costNanoUsd : requests / (whole.requests || 1),
    }
  })
}

const toId = (by: List, row: UsageFields) => row[`${by}_id`] ?? row[by] ?? null

/** What each of a list was asked or cost in each column: requests where nothing cost anything. By id. @param rows by time and by it. */
export function toLines(by: List, rows: readonly UsageFields[], range: Range): Map<string, number[]> {
  const isFree = rows.every((row) => Number(row.cost_nano_usd) === 0)
  const lines = new Map<string, number[]>()
  for (const row of rows) {
    const at = toIndex(range, row)
    if (at < 0) continue
    const line = lines.getOrInsertComputed(String(toId(by, row)), () => range.columns.map(() => 0))
    line[at] = (line[at] ?? 0) + Number(isFree ? row.requests : row.cost_nano_usd)
  }
  return lines
}

export interface Delta {
  direction: 'up' | 'down' | 'same'
  text: string
}

const SAME: Delta = { direction: 'same', text: 'as before' }

/** Beyond that, what was before was no more than a beginning. */
const MOST_TIMES = 100

/** Of amounts: `12 % more`. Null where there is nothing to compare. */
export const toAmountDelta = (now: number, before: number): Delta | null =>
  now > before * MOST_TIMES ? null : toDelta(now, before)

/** Of shares, in points of a percent: `0.3 points less`. Null where there is nothing to compare. */
export function toPointsDelta(now: number | null, before: number | null): Delta | null {
  if (now === null || before === null) return null
  const points = Math.abs(now - before)
  if (points < 0.0005) return SAME
  const text = `${toPercent(points).replace(' %', '')} points`
  return now > before ? { direction: 'up', text: `${text} more` } : { direction: 'down', text: `${text} less` }
}

/** Of times: `12 % slower`. */
export function toTimeDelta(now: number | null, before: number | null): Delta | null {
  if (now === null || before === null || before === 0) return null
  const change = (now - before) / before
  // Percentiles of histograms are no more exact than this.
  if (Math.abs(change) < 0.05) return SAME
  const text = change < 10 ? `${Math.round(Math.abs(change) * 100)} %` : `${Math.round(now / before)} times`
  return change > 0 ? { direction: 'up', text: `${text} slower` } : { direction: 'down', text: `${text} faster` }
}

interface Failure {
  at_ms: number
  error_code: string | null
  requests: number
}

interface FailureSeries {
  name: string
  /** Null for what is no code: several, or none that is known. */
  code: string | null
  /** One a column. Null where nothing was asked. */
  values: readonly (number | null)[]
  total: number
}

export const OTHERS = 'others'
/** Requests are taken away in time; their sums stay. */
export const UNKNOWN = 'kind no longer known'
/** So many are told apart. */
/** So many codes are told apart. */
const MOST_CODES = 5

/**
 * The most frequent codes first, then what the others come to: together they are what the columns have.
 *
 * @param columns with how many failed in each, whatever is known of them.
 * @param knownFromMs since when requests are on record one by one.
 */
export function toFailures(
  rows: readonly Failure[],
  columns: readonly Column[],
  { sinceMs, stepMs }: Pick<Range, 'sinceMs' | 'stepMs'>,
  knownFromMs: number,
): FailureSeries[] {
  const empty = () => columns.map(({ requests }) => (requests === 0 ? null : 0))
  const codes = new Map<string, { values: (number | null)[]; total: number }>()
  for (const { at_ms, error_code: code, requests } of rows) {
    const at = Math.floor((at_ms - sinceMs) / stepMs)
    if (code === null || at < 0 || at >= columns.length) continue
    const series = codes.getOrInsertComputed(code, () => ({ values: empty(), total: 0 }))
    series.values[at] = (series.values[at] ?? 0) + requests
    series.total += requests
  }
  const named = [...codes]
    .map(([code, series]) => ({ name: code, code, ...series }))
    .sort((a, b) => b.total - a.total)
    .slice(0, MOST_CODES)
  const left = columns.map(({ failed, cut }, at) =>
    Math.max(0, failed + cut - named.reduce((sum, { values }) => sum + (values[at] ?? 0), 0)),
  )
  const toRest = (name: string, isOf: (column: Column) => boolean): FailureSeries => {
    const values = columns.map((column, at) => (column.requests === 0 ? null : isOf(column) ? (left[at] ?? 0) : 0))
    return { name, code: null, values, total: values.reduce<number>((sum, value) => sum + (value ?? 0), 0) }
  }
  const rests = [toRest(OTHERS, ({ ms }) => ms >= knownFromMs), toRest(UNKNOWN, ({ ms }) => ms < knownFromMs)]
  return [...named, ...rests.filter(({ total }) => total > 0)]
}

interface Budgeted {
  budget_nano_usd: number | null
  budget_period: 'day' | 'week' | 'month' | 'total' | null
  spent_nano_usd: number | null
  budget_reset_ms: number | null
}

export interface Forecast {
  /** What is spent of it when its period ends. */
  atEndNanoUsd: number
  /** When nothing is left; null where it lasts. */
  emptyMs: number | null
}

/** Before that share of a period has passed, a forecast would say more than anybody knows. */
const EARLIEST = 0.05

/** Null where there is no period that ends, or it is too early to say, or nothing is left already. */
export function toForecast(of: Budgeted, nowMs: number): Forecast | null {
  const { budget_nano_usd: budget, budget_period: period, spent_nano_usd: spent, budget_reset_ms: endMs } = of
  if (budget === null || spent === null || period === null || endMs === null) return null
  const startMs = toStart(period, endMs)
  if (startMs === null || spent >= budget) return null
  const passed = (nowMs - startMs) / (endMs - startMs)
  if (passed < EARLIEST || passed > 1) return null
  const atEndNanoUsd = Math.round(spent / passed)
  const emptyMs = atEndNanoUsd > budget ? Math.round(nowMs + ((budget - spent) * (nowMs - startMs)) / spent) : null
  return { atEndNanoUsd, emptyMs }
}

function toStart(period: NonNullable<Budgeted['budget_period']>, endMs: number): number | null {
  if (period === 'day') return endMs - DAY_MS
  if (period === 'week') return endMs - 7 * DAY_MS
  if (period === 'total') return null
  const end = new Date(endMs)
  return Date.UTC(end.getUTCFullYear(), end.getUTCMonth() - 1, end.getUTCDate())
}

/** Those with a budget, the nearest to their end first. */
export const byUse = <Of extends Budgeted>(all: readonly Of[]): Of[] =>
  all.filter(({ budget_nano_usd: budget }) => budget !== null && budget > 0).sort((a, b) => toUse(b) - toUse(a))

const toUse = ({ budget_nano_usd: budget, spent_nano_usd: spent }: Budgeted) => (spent ?? 0) / (budget ?? 1)

export const HEAT_DAYS = 7
/** Shades beside the one of nothing. */
const SHADES = 5

interface HeatDay {
  /** Its beginning. */
  ms: number
  /** Null for those that have not begun. */
  hours: readonly (number | null)[]
}

/** The days that end with the last one of a range. @param endMs of the range; null where it goes on. */
export function toHeatSpan(endMs: number | null, nowMs: number): { sinceMs: number; untilMs: number | null } {
  const lastMs = dayOf(endMs === null ? nowMs : endMs - 1)
  const untilMs = lastMs + DAY_MS
  return { sinceMs: untilMs - HEAT_DAYS * DAY_MS, untilMs: untilMs > nowMs ? null : untilMs }
}

/** @param rows by hour. */
export function toHeat(rows: readonly UsageFields[], sinceMs: number, nowMs: number): HeatDay[] {
  const found = new Map(rows.map((row) => [Number(row.hour_ms), Number(row.requests)]))
  return Array.from({ length: HEAT_DAYS }, (_, day) => ({
    ms: sinceMs + day * DAY_MS,
    hours: Array.from({ length: 24 }, (_, hour) => {
      const ms = sinceMs + day * DAY_MS + hour * HOUR_MS
      return ms > nowMs ? null : (found.get(ms) ?? 0)
    }),
  }))
}

/** How dark an hour is beside the busiest one: 0 for nothing, up to SHADES. */
export const toShade = (requests: number, most: number): number =>
  requests === 0 ? 0 : Math.max(1, Math.ceil((requests / most) * SHADES))

interface Busiest {
  ms: number
  requests: number
}

/** Null where nothing was asked. */
export function toBusiest(days: readonly HeatDay[]): Busiest | null {
  let busiest: Busiest | null = null
  for (const { ms, hours } of days)
    for (const [hour, requests] of hours.entries())
      if (requests !== null && requests > (busiest?.requests ?? 0)) busiest = { ms: ms + hour * HOUR_MS, requests }
  return busiest
}

/** Groups of actions after which a request may go elsewhere, or cost something else. */
const GROUPS: ReadonlySet<string> = new Set(['catalog', 'models', 'routes', 'upstreams', 'database'])

export interface Mark {
  entry: AuditEntry
  /** Where it is, in columns: 2.25 is a quarter into the third one, whose middle is 2. */
  at: number
}

/** Rows of the audit log that are looked through: as many as it gives at once. */
const MOST_CHANGES = 1_000
/** Ids run a little ahead of their time. */
const SLACK_MS = 60_000

/** The rows that marks are among: of a time that is past, not those that came behind it. */
export const toMarksQuery = ({ sinceMs, untilMs }: Pick<Range, 'sinceMs' | 'untilMs'>) => ({
  since: String(sinceMs),
  ...(untilMs !== null && { before: toFirstId(untilMs + SLACK_MS).padEnd(32, '0') }),
  limit: MOST_CHANGES,
})

/** Oldest first. */
export const toMarks = (
  audit: readonly AuditEntry[],
  { sinceMs, untilMs, stepMs }: Pick<Range, 'sinceMs' | 'untilMs' | 'stepMs'>,
): Mark[] =>
  audit
    .filter(({ action }) => GROUPS.has(action.slice(0, action.indexOf('.'))))
    .filter(({ at_ms: ms }) => ms >= sinceMs && (untilMs === null || ms < untilMs))
    .map((entry) => ({ entry, at: (entry.at_ms - sinceMs) / stepMs - 0.5 }))
    .sort((a, b) => a.at - b.at)

/** Those within a column. */
export const marksOf = (marks: readonly Mark[], column: number): Mark[] =>
  marks.filter(({ at }) => Math.round(at) === column)

/** The next id: a page of the audit log that begins behind it begins with the row itself. */
export const toIdAfter = (id: string): string => (BigInt(`0x${id}`) + 1n).toString(16).padStart(id.length, '0')

/** Which upstreams can be asked, as far as a running server knows. Pure. */
const OUT: ReadonlySet<string> = new Set(['down', 'not_ready', 'refused'])

/** One that nobody has asked yet is ready until it proves otherwise. */
export const isReady = ({ state }: { state: string }): boolean => !OUT.has(state)

/** In words: `not ready`. */
export const toStateText = (state: string): string => state.replaceAll('_', ' ')
