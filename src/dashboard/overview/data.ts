/**
 * What the overview reads: reports of usage and of failures over the ledger, how budgets and upstreams stand, what was changed lately. The
 * figures and the first charts come first; what is smaller, once those are there.
 */
import { api, ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import {
  type List,
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
const MOST_ROWS = 10_000
/** In each list of what costs most. */
const FEW = 7

/** Ids of keys and teams, names of models; '' for all. */
export interface Filters {
  key: string
  team: string
  model: string
}

export type Overview = Awaited<ReturnType<typeof readOverview>>

export const useOverview = (wanted: Wanted, filters: Filters) =>
  useLoaded(`overview?${JSON.stringify([wanted, filters])}`, () => readOverview(wanted, filters), { everyMs: FRESH_MS })

/** Whether anything was ever asked, as far as requests are kept. */
export const useHasRequests = () =>
  useLoaded('has requests', async () => (await ask(api.requests.get({ query: { limit: 1 } }))).requests.length > 0)

const toWhere = (filters: Filters) => Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== ''))

async function readOverview(wanted: Wanted, filters: Filters) {
  const range = toRange(wanted, Date.now())
  const [where, span] = [toWhere(filters), toSpan(range)]
  const report = (by: string, limit: number) => ask(api.usage.get({ query: { ...where, ...span, by, limit } }))
  const before = { since: String(range.before.sinceMs), until: String(range.before.untilMs) }
  const [costs, columns, earlier, failures, standing] = await Promise.all([
    report(`${range.by},model`, MOST_ROWS),
    report(range.by, MOST_ROWS),
    ask(api.usage.get({ query: { ...where, ...before, by: 'model', limit: 1 } })),
    ask(api.failures.get({ query: { ...where, ...span, step: range.by } })),
    readStanding(),
  ])
  const drawn = toColumns(columns.usage, range)
  return {
    ...{ range, filters },
    costs: toCosts(costs.usage, range),
    columns: drawn,
    failures: toFailures(failures.failures, drawn, range, failures.since_ms),
    now: toTotals(columns.total),
    before: toTotals(earlier.total),
    ...standing,
  }
}

async function readList(by: List, range: Range, filters: Filters) {
  const query = { ...toWhere(filters), ...toSpan(range), by, limit: FEW, figures: 'spend' as const }
  return toShares(by, await ask(api.usage.get({ query })))
}

/** What is so now, whatever the range. */
async function readStanding() {
  const [{ keys }, { teams }, { upstreams }, { reasons }, { audit }] = await Promise.all([
    ask(api.keys.get()),
    ask(api.teams.get()),
    ask(api.upstreams.get()),
    ask(api.status.get()),
    ask(api.audit.get({ query: { limit: FEW } })),
  ])
  return { keys, teams, upstreams: upstreams.filter(({ enabled }) => enabled), reasons, audit }
}

/** Names what is read of a range with what it is narrowed to. */
const toName = (what: string, { range, filters }: Overview) =>
  `${what}?${JSON.stringify([range.sinceMs, range.untilMs, range.by, range.columns.length, filters])}`

/** Who and what costs most, of each that nobody has to go through requests for. */
export const useTops = (overview: Overview) =>
  useLoaded(
    toName('tops', overview),
    async () => {
      const list = (by: List) => readList(by, overview.range, overview.filters)
      const [key, model, team, upstream] = await Promise.all([
        list('key'),
        list('model'),
        list('team'),
        list('upstream'),
      ])
      return { key, model, team, upstream }
    },
    { everyMs: FRESH_MS },
  )

/** How each of a list went, column by column. */
export const useLines = (by: List, overview: Overview, ids: readonly string[]) =>
  useLoaded(
    `${toName(`lines of ${by}`, overview)} ${ids}`,
    async () => {
      if (ids.length === 0) return new Map<string, number[]>()
      const { range, filters } = overview
      const query = { ...toWhere(filters), ...toSpan(range), by: `${range.by},${by}`, figures: 'spend' as const }
      const { usage } = await ask(api.usage.get({ query: { ...query, [by]: [...ids], limit: MOST_ROWS } }))
      return toLines(by, usage, range)
    },
    { everyMs: SLOW_MS },
  )

/** Users are in no sums: the requests of the whole range are gone through, which is why they are read when they are wanted. */
export const useUsers = (overview: Overview) =>
  useLoaded(toName('users', overview), () => readList('user', overview.range, overview.filters))

/** Requests by the hour, of the last days of the range. */
export const useHeat = (overview: Overview) =>
  useLoaded(
    toName('heat', overview),
    async () => {
      const span = toHeatSpan(overview.range.untilMs, Date.now())
      const query = {
        ...toWhere(overview.filters),
        ...toSpan(span),
        by: 'hour',
        limit: MOST_ROWS,
        figures: 'spend' as const,
      }
      return toHeat((await ask(api.usage.get({ query }))).usage, span.sinceMs, Date.now())
    },
    { everyMs: SLOW_MS },
  )

/** What was changed of the catalogue within the range. */
export const useMarks = ({ range }: Overview) =>
  useLoaded(
    `marks?${range.sinceMs} ${range.untilMs}`,
    async () => toMarks((await ask(api.audit.get({ query: toMarksQuery(range) }))).audit, range),
    { everyMs: SLOW_MS },
  )
