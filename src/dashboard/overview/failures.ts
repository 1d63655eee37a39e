/** What the chart of failures draws: by error code as far as requests are on record, and by their sums where only those are left. Pure. */
import type { Range } from './range.ts'
import type { Column } from './series.ts'

interface Failure {
  at_ms: number
  error_code: string | null
  requests: number
}

export interface FailureSeries {
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
const MOST = 5

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
    .slice(0, MOST)
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
