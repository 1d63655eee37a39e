/** The benchmark's result: its JSON shape, and the same as text. Pure. */
import type { ColdResult, ColdTimes } from './cold.ts'
import type { FailoverResult } from './failover.ts'
import type { JsonResult } from './json-load.ts'
import type { Death } from './mortal.ts'
import { toFailoverTables, toSoakTables } from './report-faults.ts'
import type { SoakResult } from './soak.ts'
import type { StreamResult } from './stream-load.ts'
import { toFigure, toRatio, toTable } from './table.ts'

type Numbers<T> = Record<keyof T & string, number>

export interface SubjectReport {
  json1?: Numbers<JsonResult>
  json32?: Numbers<JsonResult>
  streams200?: Numbers<StreamResult>
  streams1000?: Numbers<StreamResult>
  soak?: SoakResult
  failover?: Record<Death, FailoverResult>
}

/** Medians of the rounds. CPU in microseconds, memory in MB. */
export interface Report {
  machine: string
  bun: string
  subjects: Record<string, SubjectReport>
  cold?: ColdResult
  /** How long each part took, in seconds. */
  took: Record<string, number>
}

const LOADS = ['json1', 'json32', 'streams200', 'streams1000'] as const

/** CPU a request or a chunk of one load; undefined where it was not measured. */
function cpuOf(subject: SubjectReport | undefined, load: (typeof LOADS)[number]): number | undefined {
  if (load === 'json1' || load === 'json32') return subject?.[load]?.cpuMicrosPerRequest
  return subject?.[load]?.cpuMicrosPerChunk
}

/** Ratios of CPU to both forms of the smallest proxy, by load and subject. */
export function toRatios(report: Report): Record<string, Record<string, { toFloor?: number; toPiped?: number }>> {
  const over = (cpu: number, base: number | undefined) => (base ? Number((cpu / base).toFixed(3)) : undefined)
  return Object.fromEntries(
    LOADS.map((load) => [
      load,
      Object.fromEntries(
        Object.entries(report.subjects).flatMap(([name, subject]) => {
          const cpu = cpuOf(subject, load)
          if (cpu === undefined) return []
          const toFloor = over(cpu, cpuOf(report.subjects.floor, load))
          const toPiped = over(cpu, cpuOf(report.subjects['floor-piped'], load))
          return [[name, { ...(toFloor ? { toFloor } : {}), ...(toPiped ? { toPiped } : {}) }]]
        }),
      ),
    ]),
  )
}

/** Converts a report to tables, with the ratios to both forms of the smallest proxy. */
export function toText(report: Report): string {
  const { cold } = report
  return [
    `${report.machine}, Bun ${report.bun}; medians`,
    ...toJsonTable(report, 'json1', '1 connection'),
    ...toJsonTable(report, 'json32', '32 connections'),
    ...toStreamTable(report, 'streams200', '200 paced streams'),
    ...toStreamTable(report, 'streams1000', '1,000 paced streams, fresh process'),
    ...(cold
      ? [
          `\ncold start of the binary, median of ${cold.runs}, ms from spawn to the first 200`,
          toTable(
            ['data folder', '/healthz', 'chat'],
            [
              toColdRow('left in order', cold.prepared),
              toColdRow('left by a kill', cold.killed),
              toColdRow('empty', cold.empty),
            ],
          ),
          `idle RSS ${toFigure(cold.idleRssMegabytes)} MB`,
        ]
      : []),
    ...toSoakTables(report),
    ...toFailoverTables(report),
    `\ntook ${Object.entries(report.took)
      .map(([part, seconds]) => `${toFigure(seconds, 0)} s (${part})`)
      .join(', ')}`,
  ].join('\n')
}

const toColdRow = (name: string, times: ColdTimes) => [name, toFigure(times.healthMs), toFigure(times.chatMs)]

function toJsonTable(report: Report, load: 'json1' | 'json32', title: string): string[] {
  const floor = cpuOf(report.subjects.floor, load)
  const piped = cpuOf(report.subjects['floor-piped'], load)
  const rows = Object.entries(report.subjects).flatMap(([name, { [load]: result }]) =>
    result
      ? [
          [
            name,
            toFigure(result.requestsPerSecond, 0),
            toFigure(result.p50Ms, 3),
            toFigure(result.p99Ms, 3),
            toFigure(result.cpuMicrosPerRequest),
            toRatio(result.cpuMicrosPerRequest, floor),
            toRatio(result.cpuMicrosPerRequest, piped),
            toFigure(result.rssMegabytes, 0),
            toFigure(result.errors, 0),
          ],
        ]
      : [],
  )
  if (rows.length === 0) return []
  const head = ['subject', 'req/s', 'p50 ms', 'p99 ms', 'CPU us/req', 'to floor', 'to piped', 'RSS MB', 'errors']
  return [`\nJSON, ${title}`, toTable(head, rows)]
}

function toStreamTable(report: Report, load: 'streams200' | 'streams1000', title: string): string[] {
  const floor = cpuOf(report.subjects.floor, load)
  const piped = cpuOf(report.subjects['floor-piped'], load)
  const rows = Object.entries(report.subjects).flatMap(([name, { [load]: result }]) =>
    result
      ? [
          [
            name,
            toFigure(result.chunksPerSecond, 0),
            toFigure(result.firstP50Ms),
            toFigure(result.firstP99Ms),
            toFigure(result.cpuMicrosPerChunk),
            toRatio(result.cpuMicrosPerChunk, floor),
            toRatio(result.cpuMicrosPerChunk, piped),
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
  const times = ['chunks/s', 'first p50 ms', 'first p99 ms', 'CPU us/chunk', 'to floor', 'to piped', 'CPU %']
  const head = ['subject', ...times, 'RSS before', 'RSS peak', 'complete', 'not', 'reader CPU %']
  return [`\n${title}`, toTable(head, rows)]
}
