/** The overview's data: headline figures and main charts first, the rest after them. */
import { FAILURE_FILTERS, TOPS, type WANTED_TOPS } from '../../domain/report-filters.ts'
import { api, ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import { type Filters, toGiven } from '../reports/filters.ts'
import {
  toColumns,
  toCosts,
  toFailures,
  toHeat,
  toHeatSpan,
  toLines,
  toMarks,
  toMarksQuery,
  toShares,
  toTotals,
} from './figures.ts'
import { type Range, toRange, toSpan, type Wanted } from './range.ts'

const FRESH_MS = 30_000
const SLOW_MS = 5 * 60_000
const MAX_ROWS = 10_000
/** Rows per top list. */
const FEW = 7

/** Filters that all of its reports support. */
export const FILTERS = FAILURE_FILTERS
type OverviewFilters = Filters<(typeof FILTERS)[number]>

export type Overview = Awaited<ReturnType<typeof readOverview>>

export const useOverview = (wanted: Wanted, filters: OverviewFilters) =>
  useLoaded(`overview?${JSON.stringify([wanted, filters])}`, () => readOverview(wanted, filters), { everyMs: FRESH_MS })

/** True if the history has any request. */
export const useHasRequests = () =>
  useLoaded('has requests', async () => (await ask(api.requests.get({ query: { limit: 1 } }))).requests.length > 0)

async function readOverview(wanted: Wanted, filters: OverviewFilters) {
  const range = toRange(wanted, Date.now())
  const where = { ...toGiven(filters), ...toSpan(range) }
  const report = (by: string, limit = MAX_ROWS, of = where) => ask(api.usage.get({ query: { ...of, by, limit } }))
  const [costs, { usage, total }, earlier, { failures, since_ms: knownFromMs }, standing] = await Promise.all([
    report(`${range.by},model`),
    report(range.by),
    report('model', 1, { ...where, ...toSpan(range.before) }),
    ask(api.failures.get({ query: { ...where, step: range.by } })),
    readStanding(),
  ])
  const columns = toColumns(usage, range)
  return {
    ...{ range, filters, columns, now: toTotals(total), before: toTotals(earlier.total) },
    costs: toCosts(costs.usage, range),
    failures: toFailures(failures, columns, range, knownFromMs),
    ...standing,
  }
}

/** Current state, independent of the range. */
async function readStanding() {
  const [{ keys }, { teams }, { upstreams }, { audit }] = await Promise.all([
    ask(api.keys.get()),
    ask(api.teams.get()),
    ask(api.upstreams.get()),
    ask(api.audit.get({ query: { limit: FEW } })),
  ])
  return { keys, teams, upstreams: upstreams.filter(({ enabled }) => enabled), audit }
}

const useOfRange = <T>(what: string, { range, filters }: Overview, read: () => Promise<T>, everyMs?: number) =>
  useLoaded(
    `${what}?${JSON.stringify([range.sinceMs, range.untilMs, range.by, range.columns.length, filters])}`,
    read,
    everyMs === undefined ? {} : { everyMs },
  )

/** Requests and costs only; latencies take most of a report's time. */
const readSpend = (
  { filters, range }: Overview,
  query: { by: string; limit: number; [filter: string]: string | number | string[] },
  span: Pick<Range, 'sinceMs' | 'untilMs'> = range,
) => ask(api.usage.get({ query: { ...toGiven(filters), ...toSpan(span), ...query, figures: 'spend' } }))

export type WantedList = keyof typeof WANTED_TOPS
export type List = (typeof TOPS)[number] | WantedList

const readList = async (by: List, overview: Overview) =>
  ({ by, shares: toShares(by, await readSpend(overview, { by, limit: FEW })) }) as const

export const useTops = (overview: Overview) =>
  useOfRange('tops', overview, () => Promise.all(TOPS.map((by) => readList(by, overview))), FRESH_MS)

/** A list that is loaded on request. */
export const useTop = (by: List, overview: Overview) => useOfRange(by, overview, () => readList(by, overview))

/** Sparklines of a top list. */
export const useLines = (by: List, overview: Overview, ids: string[]) =>
  useOfRange(
    `lines of ${by} ${ids}`,
    overview,
    async () => {
      if (ids.length === 0) return toLines(by, [], overview.range)
      const { usage } = await readSpend(overview, { by: `${overview.range.by},${by}`, [by]: ids, limit: MAX_ROWS })
      return toLines(by, usage, overview.range)
    },
    SLOW_MS,
  )

/** Requests by hour in the last days of the range. */
export const useHeat = (overview: Overview) =>
  useOfRange(
    'heat',
    overview,
    async () => {
      const span = toHeatSpan(overview.range.untilMs, Date.now())
      const { usage } = await readSpend(overview, { by: 'hour', limit: MAX_ROWS }, span)
      return toHeat(usage, span.sinceMs, Date.now())
    },
    SLOW_MS,
  )

/** Catalog changes within the range. */
export const useMarks = ({ range }: Overview) =>
  useLoaded(
    `marks?${range.sinceMs} ${range.untilMs}`,
    async () => toMarks((await ask(api.audit.get({ query: toMarksQuery(range) }))).audit, range),
    { everyMs: SLOW_MS },
  )
