/** Cost of a history, as tables. Pure. */
import type { JsonResult } from './json-load.ts'
import type { WorkResult } from './operator.ts'
import type { Report } from './report.ts'
import { toFigure, toRatio, toTable } from './table.ts'

const LOAD = ['req/s', 'p50 ms', 'p99 ms', 'CPU us/req', 'to first']

/** Empty if not measured. */
export function toDayTwoTables({ dayTwo }: Report): string[] {
  if (dayTwo === undefined) return []
  const { bytesPerRequest, pasts, operator } = dayTwo
  const { reports, work, taken } = operator
  return [
    `\na past; ${toFigure(bytesPerRequest, 0)} bytes of the database a request, at ${pasts.at(-1)?.requests} of them`,
    toTable(
      ['requests', 'keys', 'start ms', ...LOAD],
      pasts.map((past) => [
        String(past.requests),
        String(past.keys),
        toFigure(past.startMs, 0),
        ...toLoad(past.load, pasts[0]?.load),
      ]),
    ),
    '\nreports on the longest past, beside a server that has nothing else to do',
    toTable(
      ['command', 'ms'],
      reports.map(({ command, ms }) => [command, toFigure(ms, 0)]),
    ),
    `\nrequests while an operator works on the longest past; retention took ${taken} requests away meanwhile`,
    toTable(['beside', 'runs', 'ms each', ...LOAD], work.map(toWork)),
  ]
}

const toWork = ({ work, runs, commandMs, load }: WorkResult, _: number, all: readonly WorkResult[]) => [
  work,
  String(runs),
  commandMs === null ? '-' : toFigure(commandMs, 0),
  ...toLoad(load, all[0]?.load),
]

const toLoad = (load: Record<keyof JsonResult, number>, first: Record<keyof JsonResult, number> | undefined) => [
  toFigure(load.requestsPerSecond, 0),
  toFigure(load.p50Ms, 2),
  toFigure(load.p99Ms, 2),
  toFigure(load.cpuMicrosPerRequest),
  toRatio(load.cpuMicrosPerRequest, first?.cpuMicrosPerRequest),
]
