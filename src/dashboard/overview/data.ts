/**
 * The overview's data: headline figures and main charts first, within a browser's limit of concurrent requests; then
 * the rest.
 */

import { keysOf } from '../../domain/json.ts'
import { BREAKDOWNS, FAILURE_FILTERS, REPORT_PARAMETERS } from '../../domain/report-filters.ts'
import { toUsageFigures } from '../../domain/usage-figures.ts'
import { api, ask } from '../api/client.ts'
import { readNow } from '../api/clock.ts'
import { useLoaded } from '../api/loaded.ts'
import { useKeys } from '../keys/data.ts'
import { type Filters, toGiven } from '../reports/filters.ts'
import { useTeams } from '../teams/data.ts'
import {
  byOwner,
  toBreakdown,
  toColumns,
  toCosts,
  toCulprit,
  toFailures,
  toHeat,
  toHeatSpan,
  toLines,
  toMarks,
  toMarksQuery,
  toRefusals,
  toStopped,
  toTotals,
} from './figures.ts'
import { type Range, toRange, toSpan, type Wanted } from './range.ts'

const FRESH_MS = 30_000
const SLOW_MS = 5 * 60_000
const MAX_ROWS = 10_000
/** Changes shown. */
const FEW = 7
/** Groups of the period before, to find the cause of a change. */
const MAX_MODELS = 300
/** Rows of the breakdown. */
const MAX_GROUPS = 1_000

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
  const range = toRange(wanted, readNow())
  const where = { ...toGiven(filters), ...toSpan(range) }
  const report = (by: string, limit = MAX_ROWS, of = where) => ask(api.usage.get({ query: { ...of, by, limit } }))
  const [costs, { usage, total }, earlier, { failures, since_ms: knownFromMs }, { upstreams }] = await Promise.all([
    readSpend({ filters, range }, { by: `${range.by},model`, limit: MAX_ROWS }),
    report(range.by),
    report('model', MAX_MODELS, { ...where, ...toSpan(range.before) }),
    ask(api.failures.get({ query: { ...where, step: range.by } })),
    ask(api.upstreams.get()),
  ])
  const columns = toColumns(usage, range)
  return {
    ...{ range, filters, columns, now: toTotals(total), before: toTotals(earlier.total) },
    figures: { now: toUsageFigures(total), before: toUsageFigures(earlier.total) },
    culprit: toCulprit('model', costs.usage, earlier.usage),
    costs: toCosts(costs.usage, range),
    failures: toFailures(failures, columns, range, knownFromMs),
    stopped: toStopped(failures),
    upstreams: upstreams.filter(({ enabled }) => enabled),
  }
}

/** Current state, independent of the range. */
export function useStanding() {
  const keys = useKeys(FRESH_MS)
  const teams = useTeams()
  const changes = useLoaded('audit?few', async () => (await ask(api.audit.get({ query: { limit: FEW } }))).audit, {
    everyMs: FRESH_MS,
  })
  return { keys, teams, changes }
}

export type Standing = ReturnType<typeof useStanding>

const useOfRange = <T>(what: string, { range, filters }: Overview, read: () => Promise<T>, everyMs?: number) =>
  useLoaded(
    `${what}?${JSON.stringify([range.sinceMs, range.untilMs, range.by, range.columns.length, filters])}`,
    read,
    everyMs === undefined ? {} : { everyMs },
  )

/** Requests and costs only; latencies take most of a report's time. */
const readSpend = (
  { filters, range }: { filters: OverviewFilters; range: Range },
  query: { by: string; limit: number; [filter: string]: string | number | string[] },
  span: Pick<Range, 'sinceMs' | 'untilMs'> = range,
) => ask(api.usage.get({ query: { ...toGiven(filters), ...toSpan(span), ...query, figures: 'spend' } }))

/** Owners are sums of their keys. */
export const GROUPS = {
  ...(Object.fromEntries(BREAKDOWNS.map((name) => [name, REPORT_PARAMETERS[name].title])) as Record<
    (typeof BREAKDOWNS)[number],
    string
  >),
  owner: 'Owner',
}
export type Group = keyof typeof GROUPS

export const toGroup = (text: string | null): Group => keysOf(GROUPS).find((name) => name === text) ?? 'model'

async function readBreakdown(by: Group, overview: Overview) {
  const { filters, range } = overview
  const isOwner = by === 'owner'
  const query = { by: isOwner ? 'key' : by, limit: isOwner ? MAX_ROWS : MAX_GROUPS }
  const [{ usage }, before, { keys }] = await Promise.all([
    ask(api.usage.get({ query: { ...toGiven(filters), ...toSpan(range), ...query, figures: 'sums' } })),
    readSpend(overview, query, range.before),
    isOwner ? ask(api.keys.get()) : { keys: [] },
  ])
  return isOwner
    ? toBreakdown(by, byOwner(usage, keys), byOwner(before.usage, keys))
    : toBreakdown(by, usage, before.usage)
}

export const useBreakdown = (by: Group, overview: Overview) =>
  useOfRange(
    `breakdown by ${by}`,
    overview,
    () => readBreakdown(by, overview),
    // Users are only in the requests themselves.
    by === 'user' ? undefined : FRESH_MS,
  )

/** The key behind most of the change since the period before. */
export const useCulpritKey = (overview: Overview) =>
  useOfRange(
    'culprit',
    overview,
    async () => {
      const query = { by: 'key', limit: MAX_GROUPS }
      const [now, before] = await Promise.all([
        readSpend(overview, query),
        readSpend(overview, query, overview.range.before),
      ])
      return { key: toCulprit('key', now.usage, before.usage) }
    },
    SLOW_MS,
  )

/** Sparklines of the breakdown. */
export const useLines = (by: Group, overview: Overview, ids: string[]) =>
  useOfRange(
    `lines of ${by} ${ids}`,
    overview,
    async () => {
      if (ids.length === 0 || by === 'owner' || by === 'user') return toLines(by, [], overview.range)
      const { usage } = await readSpend(overview, { by: `${overview.range.by},${by}`, [by]: ids, limit: MAX_ROWS })
      return toLines(by, usage, overview.range)
    },
    SLOW_MS,
  )

/** Most refused first, with the keys; empty with a filter that refused requests don't support. */
export const useRefusals = (overview: Overview) =>
  useOfRange(
    'refusals',
    overview,
    async () => {
      const { model, upstream, ...filters } = overview.filters
      if (model || upstream) return []
      const query = { ...toGiven(filters), ...toSpan(overview.range), by: 'code,key' }
      return toRefusals((await ask(api.usage.refusals.get({ query }))).refusals)
    },
    FRESH_MS,
  )

/** Requests by hour in the last days of the range. */
export const useHeat = (overview: Overview) =>
  useOfRange(
    'heat',
    overview,
    async () => {
      const span = toHeatSpan(overview.range.untilMs, readNow())
      const { usage } = await readSpend(overview, { by: 'hour', limit: MAX_ROWS }, span)
      return toHeat(usage, span.sinceMs, readNow())
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
