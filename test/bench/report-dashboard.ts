/** Cost of the dashboard, as tables. Pure. */
import type { PageResult } from './dashboard.ts'
import type { Report } from './report.ts'
import { toFigure, toRatio, toTable } from './table.ts'

/** Empty if not measured. */
export function toDashboardTables({ dashboard }: Report): string[] {
  if (dashboard === undefined) return []
  const { pages, beside } = dashboard
  const base = beside[0]?.load.cpuMicrosPerRequest
  return [
    '\npages of the dashboard on the long past: what each asks of the API',
    toTable(
      ['page', 'slowest ms', 'all ms', 'slowest', 'beside load', 'all ms', 'slowest'],
      pages.map(({ path, alone, loaded }) => [path, ...toCells(alone), ...toCells(loaded)]),
    ),
    '\nrequests while pages of the dashboard are open',
    toTable(
      ['open', 'req/s', 'p50 ms', 'p99 ms', 'CPU us/req', 'to none'],
      beside.map(({ pages: open, load }) => [
        open,
        toFigure(load.requestsPerSecond, 0),
        toFigure(load.p50Ms, 2),
        toFigure(load.p99Ms, 2),
        toFigure(load.cpuMicrosPerRequest),
        toRatio(load.cpuMicrosPerRequest, base),
      ]),
    ),
  ]
}

const toCells = ({ slowest, slowestMs, allMs }: PageResult) => [toFigure(slowestMs, 0), toFigure(allMs, 0), slowest]
