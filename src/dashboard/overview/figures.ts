/** Turns usage and failure reports into chart series, lists, and marks, and forecasts budgets. */
import { toFirstId } from '../../domain/id.ts'
import { CLIENT_CLOSED } from '../../domain/report-filters.ts'
import { DAY_MS, dayOf, HOUR_MS } from '../../domain/time.ts'
import { toUsageFigures, type UsageFigureValues } from '../../domain/usage-figures.ts'
import type { toForecast } from '../../keys/forecast.ts'
import type { AuditEntry } from '../audit/words.ts'
import { type Delta, SAME, toDelta, toPercent } from '../figures/figures.ts'
import type { Range } from './range.ts'

/** A report row by column name. */
type UsageFields = Readonly<Record<string, string | number | null>>

/** One value per column. Null without requests: a gap, not 0. */
type Values = (number | null)[]

interface Series {
  name: string
  values: Values
  total: number
  isEstimated: boolean
}

const sum = (values: readonly (number | null)[]) => values.reduce<number>((all, value) => all + (value ?? 0), 0)

/** Column of a time; -1 for none. */
function toColumn({ columns, sinceMs, stepMs }: Pick<Range, 'columns' | 'sinceMs' | 'stepMs'>, ms: number): number {
  const at = Math.floor((ms - sinceMs) / stepMs)
  return at < columns.length ? at : -1
}

interface Amount {
  name: string
  ms: number
  amount: number
  isEstimated?: boolean
}

/** One series per name, largest first. @param empty values of columns without amounts */
function toSeries(amounts: readonly Amount[], range: Pick<Range, 'columns' | 'sinceMs' | 'stepMs'>, empty: Values) {
  const found = new Map<string, Series>()
  for (const { name, ms, amount, isEstimated = false } of amounts) {
    const at = toColumn(range, ms)
    if (at < 0) continue
    const create = () => ({ name, values: [...empty], total: 0, isEstimated: false })
    const series = found.getOrInsertComputed(name, create)
    series.values[at] = (series.values[at] ?? 0) + amount
    series.total += amount
    series.isEstimated ||= isEstimated
  }
  return [...found.values()].sort((a, b) => b.total - a.total)
}

export const NANO = 1e9

export const OTHER = 'other'
const MAX = 7

/** Nano-dollars per model: the most expensive ones, and the rest as `other`. @param rows by time and model */
export function toCosts(rows: readonly UsageFields[], range: Range): Series[] {
  const amounts = rows.map((row) => {
    const { costNanoUsd: amount, isEstimated } = toTotals(row)
    return { name: String(row.model), ms: Number(row[`${range.by}_ms`]), amount, isEstimated }
  })
  const empty = range.columns.map(() => null)
  const ranked = toSeries(amounts, range, empty)
  // A single remaining model keeps its name.
  if (ranked.length <= MAX + 1) return ranked
  const others = new Set(ranked.slice(MAX).map(({ name }) => name))
  const rest = amounts.filter(({ name }) => others.has(name)).map((amount) => ({ ...amount, name: OTHER }))
  return [...ranked.slice(0, MAX), ...toSeries(rest, range, empty)]
}

/** Cumulative values of stacked series. */
export function toStack(series: readonly { values: readonly (number | null)[] }[]): Values[] {
  let below: Values = []
  return series.map(({ values }) => {
    below = values.map((value, at) => {
      const under = below[at] ?? null
      return value === null && under === null ? null : (value ?? 0) + (under ?? 0)
    })
    return below
  })
}

export interface Totals {
  costNanoUsd: number
  isEstimated: boolean
  requests: number
  failed: number
  cut: number
  /** Fraction of requests with errors; null without requests. */
  badShare: number | null
  /** Null if not measured. */
  firstTokenP50Ms: number | null
  firstTokenP95Ms: number | null
  durationP50Ms: number | null
  durationP95Ms: number | null
}

export function toTotals(fields: UsageFields): Totals {
  const read = (name: string) => (fields[name] == null ? null : Number(fields[name]))
  const [requests, failed, cut] = [read('requests') ?? 0, read('errors') ?? 0, read('cuts') ?? 0]
  return {
    costNanoUsd: read('cost_nano_usd') ?? 0,
    isEstimated: (read('estimated_cost_nano_usd') ?? 0) > 0,
    ...{ requests, failed, cut, badShare: requests === 0 ? null : (failed + cut) / requests },
    firstTokenP50Ms: read('first_token_p50_ms'),
    firstTokenP95Ms: read('first_token_p95_ms'),
    durationP50Ms: read('duration_p50_ms'),
    durationP95Ms: read('duration_p95_ms'),
  }
}

export type Column = Totals & { ms: number }

/** @param rows by time */
export function toColumns(rows: readonly UsageFields[], range: Range): Column[] {
  const found = new Map(rows.map((row) => [Number(row[`${range.by}_ms`]), row]))
  return range.columns.map((ms) => ({ ms, ...toTotals(found.get(ms) ?? {}) }))
}

/** A row of the breakdown. */
export interface BrokenDown {
  /** Filter value; null if the group is not set. */
  id: string | null
  name: string
  figures: UsageFigureValues
  isEstimated: boolean
  /** Cost in the period before, and the difference to it, in nano-dollars. */
  before: number
  change: number
}

/** @param before rows of the period before */
export function toBreakdown(by: string, rows: readonly UsageFields[], before: readonly UsageFields[]): BrokenDown[] {
  const earlier = toCostsOf(by, before)
  return rows.map((row) => {
    const id = toId(by, row)
    const figures = toUsageFigures(row)
    const cost = earlier.get(id) ?? 0
    return {
      ...{ id, name: String(row[by] ?? id ?? `no ${by}`), figures, isEstimated: toTotals(row).isEstimated },
      ...{ before: cost, change: (figures.cost_nano_usd ?? 0) - cost },
    }
  })
}

function toCostsOf(by: string, rows: readonly UsageFields[]): Map<string | null, number> {
  const costs = new Map<string | null, number>()
  for (const row of rows) costs.set(toId(by, row), (costs.get(toId(by, row)) ?? 0) + Number(row.cost_nano_usd ?? 0))
  return costs
}

/** Adds up the rows of keys by the keys' owners. */
export function byOwner(
  rows: readonly UsageFields[],
  keys: readonly { id: string; owner_id: string | null; owner: string | null }[],
): UsageFields[] {
  const owners = new Map(keys.map(({ id, owner_id, owner }) => [id, { owner_id, owner }]))
  const found = new Map<string | null, Record<string, string | number | null>>()
  for (const { key_id, key, ...fields } of rows) {
    const { owner_id = null, owner = null } = owners.get(String(key_id)) ?? {}
    const sums = found.getOrInsertComputed(owner_id, () => ({ owner_id, owner }))
    for (const [name, value] of Object.entries(fields)) sums[name] = Number(sums[name] ?? 0) + Number(value ?? 0)
  }
  return [...found.values()].sort((a, b) => Number(b.cost_nano_usd) - Number(a.cost_nano_usd))
}

/** The group behind more than half of a change of cost; null if there is none, or only one group. */
export function toCulprit(
  by: string,
  rows: readonly UsageFields[],
  before: readonly UsageFields[],
): { id: string; name: string } | null {
  const [now, earlier] = [toCostsOf(by, rows), toCostsOf(by, before)]
  const ids = [...new Set([...now.keys(), ...earlier.keys()])]
  if (ids.length < 2) return null
  const changes = ids.map((id) => ({ id, change: (now.get(id) ?? 0) - (earlier.get(id) ?? 0) }))
  const whole = changes.reduce((all, { change }) => all + change, 0)
  const found = changes.find(({ change }) => whole !== 0 && change / whole > 0.5)
  if (found == null || found.id === null) return null
  const { id } = found
  const row = [...rows, ...before].find((one) => toId(by, one) === id)
  return { id, name: String(row?.[by] ?? id) }
}

export interface Share extends Totals {
  /** Filter value; null if the dimension is not set. */
  id: string | null
  name: string
  /** Share of total cost, or of total requests if everything is free. */
  share: number
}

export function toShares(by: string, { usage, total }: { usage: readonly UsageFields[]; total: UsageFields }): Share[] {
  const whole = toTotals(total)
  return usage.map((row) => {
    const [totals, id] = [toTotals(row), toId(by, row)]
    const { costNanoUsd, requests } = totals
    return {
      ...totals,
      ...{ id, name: String(row[by] ?? id ?? `no ${by}`) },
      share: whole.costNanoUsd > 0 ? costNanoUsd / whole.costNanoUsd : requests / (whole.requests || 1),
    }
  })
}

function toId(by: string, row: UsageFields): string | null {
  const id = row[`${by}_id`] ?? row[by] ?? null
  return id === null ? null : String(id)
}

/** Cost per column by ID, or requests if everything is free. @param rows by time and dimension */
export function toLines(by: string, rows: readonly UsageFields[], range: Range): Map<string, Values> {
  const isFree = rows.every((row) => Number(row.cost_nano_usd) === 0)
  const amounts = rows.map((row) => ({
    ...{ name: String(toId(by, row)), ms: Number(row[`${range.by}_ms`]) },
    amount: Number(isFree ? row.requests : row.cost_nano_usd),
  }))
  const none = range.columns.map(() => 0)
  return new Map(toSeries(amounts, range, none).map(({ name, values }) => [name, values]))
}

/** Change of a fraction in percentage points: `0.3 points less`. Null if there is nothing to compare. */
export function toPointsDelta(now: number | null, before: number | null): Delta | null {
  if (now === null || before === null) return null
  const points = Math.abs(now - before)
  if (points < 0.0005) return SAME
  const amount = toPercent(points).replace('%', '')
  const text = `${amount} ${amount === '1' ? 'point' : 'points'}`
  return now > before ? { direction: 'up', text: `${text} more` } : { direction: 'down', text: `${text} less` }
}

/** `12% slower`; changes below 5% are within the error of the histograms' percentiles. */
export const toTimeDelta = (now: number | null, before: number | null): Delta | null =>
  now === null || before === null ? null : toDelta(now, before, { least: 0.05, words: ['slower', 'faster'] })

interface Failure {
  at_ms: number
  error_code: string | null
  requests: number
}

export const OTHERS = 'others'
/** Errors of requests past retention, of which only totals are left. */
export const UNKNOWN = 'unknown (past retention)'
const MAX_CODES = 5

/**
 * The most frequent codes, then the rest, so that they add up to the columns' totals.
 *
 * @param knownFromMs start of the request history
 */
export function toFailures(
  rows: readonly Failure[],
  columns: readonly Pick<Column, 'ms' | 'requests' | 'failed' | 'cut'>[],
  range: Pick<Range, 'sinceMs' | 'stepMs'>,
  knownFromMs: number,
): Series[] {
  const amounts = rows.flatMap(({ at_ms: ms, error_code: name, requests: amount }) =>
    name === null ? [] : [{ name, ms, amount }],
  )
  const empty = columns.map(({ requests }) => (requests === 0 ? null : 0))
  const named = toSeries(amounts, { ...range, columns: columns.map(({ ms }) => ms) }, empty).slice(0, MAX_CODES)
  const toRest = (name: string, isKnown: boolean): Series => {
    const values = columns.map(({ ms, requests, failed, cut }, at) => {
      if (requests === 0 || ms >= knownFromMs !== isKnown) return empty[at] ?? null
      return Math.max(0, failed + cut - sum(named.map((series) => series.values[at] ?? null)))
    })
    return { name, values, total: sum(values), isEstimated: false }
  }
  return [...named, ...[toRest(OTHERS, true), toRest(UNKNOWN, false)].filter(({ total }) => total > 0)]
}

/** Requests that their clients ended, such as by a Stop button; only those of the request history. */
export const toStopped = (rows: readonly Failure[]): number =>
  sum(rows.map(({ error_code: code, requests }) => (code === CLIENT_CLOSED ? requests : 0)))

type Budgeted = Parameters<typeof toForecast>[0]

/** Keys or teams with a budget, highest use first. */
export const byUse = <Of extends Budgeted>(all: readonly Of[]): Of[] =>
  all.filter(({ budget_nano_usd: budget }) => budget !== null && budget > 0).sort((a, b) => toUse(b) - toUse(a))

const toUse = ({ budget_nano_usd: budget, spent_nano_usd: spent }: Budgeted) => (spent ?? 0) / (budget ?? 1)

export const HEAT_DAYS = 7
/** Shades for non-zero values. */
const SHADES = 5

interface HeatDay {
  ms: number
  /** Null for future hours. */
  hours: readonly (number | null)[]
}

/** @param endMs of the range; null if it includes the current hour */
export function toHeatSpan(endMs: number | null, nowMs: number): { sinceMs: number; untilMs: number | null } {
  const untilMs = dayOf(endMs === null ? nowMs : endMs - 1) + DAY_MS
  return { sinceMs: untilMs - HEAT_DAYS * DAY_MS, untilMs: untilMs > nowMs ? null : untilMs }
}

/** @param rows by hour */
export function toHeat(rows: readonly UsageFields[], sinceMs: number, nowMs: number): HeatDay[] {
  const found = new Map(rows.map((row) => [Number(row.hour_ms), Number(row.requests)]))
  return Array.from({ length: HEAT_DAYS }, (_, day) => {
    const ms = sinceMs + day * DAY_MS
    const hours = Array.from({ length: 24 }, (_, hour) => ms + hour * HOUR_MS)
    return { ms, hours: hours.map((one) => (one > nowMs ? null : (found.get(one) ?? 0))) }
  })
}

/** 0 for no requests, up to SHADES for the busiest hour. */
export const toShade = (requests: number, most: number): number =>
  requests === 0 ? 0 : Math.max(1, Math.ceil((requests / most) * SHADES))

/** Null without requests. */
export function toBusiest(days: readonly HeatDay[]): { ms: number; requests: number } | null {
  const hours = days.flatMap(({ ms, hours }) =>
    hours.map((requests, hour) => ({ ms: ms + hour * HOUR_MS, requests: requests ?? 0 })),
  )
  return hours.filter(({ requests }) => requests > 0).sort((a, b) => b.requests - a.requests)[0] ?? null
}

/** Audit action groups that can change routing or cost. */
const GROUPS: ReadonlySet<string> = new Set(['catalog', 'models', 'routes', 'upstreams', 'database'])

export interface Mark {
  entry: AuditEntry
  /** In columns, whose middles are whole numbers: 2.25 is right of the third column's middle. */
  at: number
}

/** Audit rows read: the API's maximum page. */
const MAX_CHANGES = 1_000
/** IDs may be slightly ahead of their time. */
const SLACK_MS = 60_000

/** Skips rows newer than a past range. */
export const toMarksQuery = ({ sinceMs, untilMs }: Pick<Range, 'sinceMs' | 'untilMs'>) => ({
  since: String(sinceMs),
  ...(untilMs !== null && { before: toFirstId(untilMs + SLACK_MS).padEnd(32, '0') }),
  limit: MAX_CHANGES,
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

export const marksOf = (marks: readonly Mark[], column: number): Mark[] =>
  marks.filter(({ at }) => Math.round(at) === column)

/** The next ID, so that a page `before` it starts with the row itself. */
export const toIdAfter = (id: string): string => (BigInt(`0x${id}`) + 1n).toString(16).padStart(id.length, '0')

/** Refused requests by code, most first, with the affected keys. */
export function toRefusals(rows: readonly Readonly<Record<string, string | number | null>>[]) {
  const codes = Map.groupBy(rows, ({ code }) => String(code))
  return [...codes]
    .map(([code, ofCode]) => ({
      code,
      meaning: String(ofCode[0]?.meaning ?? ''),
      refused: ofCode.reduce((sum, { refused }) => sum + Number(refused), 0),
      keys: ofCode.flatMap(({ key_id: id, key: name }) => (id === null ? [] : [{ id: String(id), name }])),
    }))
    .sort((a, b) => b.refused - a.refused)
}
