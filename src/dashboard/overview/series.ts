/** What the overview's charts draw, out of reports of usage. Pure. */
import type { Range } from './range.ts'

/** A group of a report, by its columns' names. */
export type UsageFields = Readonly<Record<string, string | number | null>>

export interface Series {
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
export const toIndex = ({ columns, sinceMs, stepMs, by }: Range, row: UsageFields) => {
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

export interface Column {
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

export interface Totals {
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
