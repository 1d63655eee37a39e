/** Results of soak and failover as tables. Pure. */
import { DEADLINE, type FailoverResult } from './failover.ts'
import { RETURN_RATIO } from './memory.ts'
import type { Report } from './report.ts'
import type { SoakPhase } from './soak.ts'
import { toFigure, toRatio, toTable } from './table.ts'

/** Empty if the soak was not run. */
export function toSoakTables(report: Report): string[] {
  const soaked = Object.entries(report.subjects).flatMap(([name, { soak }]) => (soak ? [{ name, soak }] : []))
  const [any] = soaked
  if (any === undefined) return []
  const { watchedS } = any.soak
  const head = [
    'subject, load',
    'answered',
    'idle',
    'peak',
    `${watchedS} s later`,
    'to idle',
    `<= ${RETURN_RATIO}x after`,
  ]
  const all = soaked.flatMap(({ name, soak }) =>
    Object.entries(soak.phases).map(([load, phase]) => ({ title: `${name}, ${load}`, phase })),
  )
  const rows = all.map(({ title, phase }) => toSoakRow(title, phase))
  const minutes = all.flatMap(({ title, phase }) =>
    phase.minutes.length > 1
      ? [`\n${title}, RSS each minute: ${phase.minutes.map((mb) => toFigure(mb)).join(' ')}`]
      : [],
  )
  const slow = soaked.flatMap(({ name, soak }) => (soak.slow ? [{ name, slow: soak.slow }] : []))
  return [
    '\nsoak, RSS in MB; idle: after 20 requests and 3 s of rest',
    toTable(head, rows),
    ...minutes,
    ...(slow.length > 0
      ? [
          '\na client that stops reading an endless stream, RSS in MB',
          toTable(
            ['subject', 'seconds', 'before', 'peak', 'after', 'to before', 'MB taken', 'still open'],
            slow.map(({ name, slow: { seconds, before, peak, after, taken, open } }) => [
              name,
              toFigure(seconds, 0),
              toFigure(before),
              toFigure(peak),
              toFigure(after),
              toRatio(after, before),
              toFigure(taken),
              open ? 'yes' : 'no',
            ]),
          ),
        ]
      : []),
  ]
}

const toSoakRow = (title: string, phase: SoakPhase) => [
  title,
  `${phase.ok}/${phase.requests}`,
  toFigure(phase.idle),
  toFigure(phase.peak),
  toFigure(phase.after),
  toRatio(phase.after, phase.idle),
  phase.returnedAfterS === null ? 'never' : `${toFigure(phase.returnedAfterS)} s`,
]

/** Empty if failover was not measured. */
export function toFailoverTables(report: Report): string[] {
  const cases = Object.entries(report.subjects).flatMap(([name, { failover }]) =>
    Object.entries(failover ?? {}).map(([death, result]) => ({ title: `${name}, ${death}`, result })),
  )
  const [any] = cases
  if (any === undefined) return []
  const { requests } = any.result.first
  return [
    `\nfailover: ${requests} requests one by one from the death of the first upstream on (its deadline: ${DEADLINE})`,
    toTable(
      [
        'subject, death',
        'answered',
        'fell back',
        'first ms',
        'slowest',
        'p50 ms',
        'live only',
        'ratio',
        'CPU us/req',
        'ratio',
      ],
      cases.map(({ title, result }) => toFirstRow(title, result)),
    ),
    '\nfailover, later: 32 connections, the dead route first, to the same with only the live one; calls and looks: at the dead one',
    toTable(
      [
        'subject, death',
        'CPU us/req',
        'live only',
        'ratio',
        'p50 ms',
        'live only',
        'ratio',
        'errors',
        'calls',
        'looks',
        'in s',
      ],
      cases.map(({ title, result }) => toLaterRow(title, result)),
    ),
  ]
}

function toFirstRow(title: string, { first, firstLive }: FailoverResult): string[] {
  const { cpuMicrosPerRequest: cpu } = first
  return [
    title,
    `${first.ok}/${first.requests}`,
    toFigure(first.fellBack, 0),
    toFigure(first.firstMs, 2),
    toFigure(first.slowestMs, 2),
    toFigure(first.p50Ms, 2),
    toFigure(firstLive.p50Ms, 2),
    toRatio(first.p50Ms, firstLive.p50Ms),
    cpu === null ? '-' : toFigure(cpu, 0),
    cpu === null ? '-' : toRatio(cpu, firstLive.cpuMicrosPerRequest ?? undefined),
  ]
}

function toLaterRow(title: string, { live, dead, visits }: FailoverResult): string[] {
  return [
    title,
    toFigure(dead.cpuMicrosPerRequest),
    toFigure(live.cpuMicrosPerRequest),
    toRatio(dead.cpuMicrosPerRequest, live.cpuMicrosPerRequest),
    toFigure(dead.p50Ms, 3),
    toFigure(live.p50Ms, 3),
    toRatio(dead.p50Ms, live.p50Ms),
    toFigure(dead.errors + live.errors, 0),
    ...(visits
      ? [visits.calls, visits.connections - visits.calls, visits.seconds].map((figure) => toFigure(figure, 0))
      : ['-', '-', '-']),
  ]
}
