/** What the overview reads: reports of usage over the ledger, how budgets and upstreams stand, what was changed lately. */
import { api, ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import { toRange, toSpan, type Wanted } from './range.ts'
import { toColumns, toCosts, toShares, toTotals } from './series.ts'

const FRESH_MS = 30_000
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

async function readOverview(wanted: Wanted, filters: Filters) {
  const range = toRange(wanted, Date.now())
  const where = Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== ''))
  const span = toSpan(range)
  const report = (by: string, limit: number) => ask(api.usage.get({ query: { ...where, ...span, by, limit } }))
  const before = { since: String(range.before.sinceMs), until: String(range.before.untilMs) }
  const [costs, columns, earlier, byKey, byTeam, byModel, standing] = await Promise.all([
    report(`${range.by},model`, MOST_ROWS),
    report(range.by, MOST_ROWS),
    ask(api.usage.get({ query: { ...where, ...before, by: 'model', limit: 1 } })),
    report('key', FEW),
    report('team', FEW),
    report('model', FEW),
    readStanding(),
  ])
  return {
    range,
    costs: toCosts(costs.usage, range),
    columns: toColumns(columns.usage, range),
    now: toTotals(columns.total),
    before: toTotals(earlier.total),
    tops: { key: toShares('key', byKey), team: toShares('team', byTeam), model: toShares('model', byModel) },
    ...standing,
  }
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
