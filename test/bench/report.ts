/** The benchmark's result: its JSON shape, and the same as text. Pure. */
import type { ColdResult } from './cold.ts'
import type { DashboardResult } from './dashboard.ts'
import type { DayTwoResult } from './day-two.ts'
import type { FailoverResult } from './failover.ts'
import type { JsonResult } from './json-load.ts'
import type { JsonLoad, Load, StreamLoad } from './loads.ts'
import type { Death } from './mortal.ts'
import { cpuOf, RATIO_TITLES, toRatioCells } from './ratios.ts'
import { toDashboardTables } from './report-dashboard.ts'
import { toDayTwoTables } from './report-day-two.ts'
import { toFailoverTables, toSoakTables } from './report-faults.ts'
import { toSummaryTable } from './report-summary.ts'
import type { SoakResult } from './soak.ts'
import type { StreamResult } from './stream-load.ts'
import { toFigure, toTable } from './table.ts'
import type { WarmUp } from './warm-up.ts'

type Numbers<T> = Record<keyof T & string, number>

export interface SubjectReport {
  warmUp?: WarmUp
  json1?: Numbers<JsonResult>
  json32?: Numbers<JsonResult>
  json64k?: Numbers<JsonResult>
  streams200?: Numbers<StreamResult>
  native200?: Numbers<StreamResult>
  translated200?: Numbers<StreamResult>
  streams1000?: Numbers<StreamResult>
  coldStart?: ColdResult
  soak?: SoakResult
  failover?: Record<Death, FailoverResult>
}

/** Medians of the rounds. CPU in microseconds, memory in MB. */
export interface Report {
  machine: string
  bun: string
  subjects: Record<string, SubjectReport>
  dayTwo?: DayTwoResult
  dashboard?: DashboardResult
  /** Duration of each part, in seconds. */
  took: Record<string, number>
}

/** Converts a report to tables. */
export function toText(report: Report): string {
  return [
    `${report.machine}, Bun ${report.bun}; medians of the rounds after the warm-up; cold: its first slice, in this order`,
    ...toJsonTable(report, 'json1', '1 connection'),
    ...toJsonTable(report, 'json32', '32 connections'),
    ...toJsonTable(report, 'json64k', '32 connections, bodies of 64 kB'),
    ...toStreamTable(report, 'streams200', '200 paced streams'),
    ...toStreamTable(report, 'native200', '200 paced streams of Messages, passed as they came'),
    ...toStreamTable(report, 'translated200', '200 paced streams of Messages, written anew from chats'),
    ...toStreamTable(report, 'streams1000', '1,000 paced streams, fresh process, not warmed up'),
    ...toColdTable(report),
    ...toSoakTables(report),
    ...toFailoverTables(report),
    ...toDayTwoTables(report),
    ...toDashboardTables(report),
    ...toSummaryTable(report),
    `\ntook ${Object.entries(report.took)
      .map(([part, seconds]) => `${toFigure(seconds, 0)} s (${part})`)
      .join(', ')}`,
  ].join('\n')
}

function toJsonTable(report: Report, load: JsonLoad, title: string): string[] {
  const rows = Object.entries(report.subjects).flatMap(([name, { [load]: result, warmUp }]) =>
    result
      ? [
          [
            name,
            toFigure(result.requestsPerSecond, 0),
            toFigure(result.p50Ms, 3),
            toFigure(result.p99Ms, 3),
            toCold(warmUp, load),
            toFigure(result.cpuMicrosPerRequest),
            toFigure(result.jitMicrosPerRequest),
            ...toRatioCells(report, result.cpuMicrosPerRequest, (base) => cpuOf(base, load)),
            toFigure(result.rssMegabytes, 0),
            toFigure(result.errors, 0),
          ],
        ]
      : [],
  )
  if (rows.length === 0) return []
  const times = ['req/s', 'p50 ms', 'p99 ms', 'cold us/req', 'CPU us/req', 'of it JIT']
  return [`\nJSON, ${title}`, toTable(['subject', ...times, ...RATIO_TITLES, 'RSS MB', 'errors'], rows)]
}

function toStreamTable(report: Report, load: StreamLoad | 'streams1000', title: string): string[] {
  const rows = Object.entries(report.subjects).flatMap(([name, { [load]: result, warmUp }]) =>
    result
      ? [
          [
            name,
            toFigure(result.chunksPerSecond, 0),
            toFigure(result.firstP50Ms, 2),
            toFigure(result.firstP99Ms, 2),
            toFigure(result.chunkP50Ms, 2),
            toFigure(result.chunkP99Ms, 2),
            toCold(warmUp, load),
            toFigure(result.cpuMicrosPerChunk),
            toFigure(result.jitMicrosPerChunk),
            ...toRatioCells(report, result.cpuMicrosPerChunk, (base) => cpuOf(base, load)),
            toFigure(result.cpuShare * 100, 0),
            toFigure(result.idleRssMegabytes, 0),
            toFigure(result.peakRssMegabytes, 0),
            toFigure(result.complete, 0),
            toFigure(result.broken + result.refused, 0),
            toFigure(result.readerCpuShare * 100, 0),
          ],
        ]
      : [],
  )
  if (rows.length === 0) return []
  const times = [
    'chunks/s',
    '+first p50 ms',
    'p99',
    '+chunk p50 ms',
    'p99',
    'cold us/chunk',
    'CPU us/chunk',
    'of it JIT',
  ]
  const rest = ['CPU %', 'RSS before', 'RSS peak', 'complete', 'not', 'reader CPU %']
  return [`\n${title}`, toTable(['subject', ...times, ...RATIO_TITLES, ...rest], rows)]
}

/** Marks a subject that was still compiling when it was measured. */
function toCold(warmUp: WarmUp | undefined, load: Load): string {
  const cold = warmUp?.cold[load]
  return cold && warmUp ? `${toFigure(cold.cpuMicros)}${warmUp.quiet ? '' : ' (!)'}` : '-'
}

function toColdTable(report: Report): string[] {
  const rows = Object.entries(report.subjects).flatMap(([name, { coldStart }]) =>
    coldStart
      ? [
          [
            name,
            ...[coldStart.prepared, coldStart.killed, coldStart.empty].flatMap(({ healthMs, chatMs }) => [
              toFigure(healthMs),
              toFigure(chatMs),
            ]),
            toFigure(coldStart.idleRssMegabytes),
            toFigure(coldStart.runs, 0),
          ],
        ]
      : [],
  )
  if (rows.length === 0) return []
  const head = ['in order: /healthz', 'chat', 'killed: /healthz', 'chat', 'empty: /healthz', 'chat', 'idle RSS', 'runs']
  return [
    '\ncold start, medians in ms from spawn to the first 200, over a data folder left in order, left by a kill, and empty',
    toTable(['subject', ...head], rows),
  ]
}
