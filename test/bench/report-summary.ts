/** The benchmark in one table: Tollgate's cost next to the smallest proxy and the previous build. Pure. */
import { cpuOf, RATIO_TITLES, toRatioCells } from './ratios.ts'
import type { Report, SubjectReport } from './report.ts'
import { toFigure, toTable } from './table.ts'

const ROWS: Record<string, (subject: SubjectReport | undefined) => number | undefined> = {
  'CPU us a request, 1 connection': (subject) => cpuOf(subject, 'json1'),
  'CPU us a request, 32 connections': (subject) => cpuOf(subject, 'json32'),
  'the same, cold': (subject) => subject?.warmUp?.cold.json32?.cpuMicros,
  'CPU us a request, bodies of 64 kB': (subject) => cpuOf(subject, 'json64k'),
  'CPU us a chunk, 200 streams': (subject) => cpuOf(subject, 'streams200'),
  'CPU us a chunk, 200 streams of Messages, passed': (subject) => cpuOf(subject, 'native200'),
  'the same, written anew from chats': (subject) => cpuOf(subject, 'translated200'),
  'ms added to the first token, 200 streams': (subject) => subject?.streams200?.firstP50Ms,
  'ms added to a chunk': (subject) => subject?.streams200?.chunkP50Ms,
  'CPU us a chunk, 1,000 streams, fresh process': (subject) => cpuOf(subject, 'streams1000'),
  'RSS MB under 32 connections': (subject) => subject?.json32?.rssMegabytes,
  'RSS MB before 1,000 streams': (subject) => subject?.streams1000?.idleRssMegabytes,
  'RSS MB at their peak': (subject) => subject?.streams1000?.peakRssMegabytes,
  'cold start, ms to the first health answer': (subject) => subject?.coldStart?.prepared.healthMs,
  'cold start, ms to the first completion': (subject) => subject?.coldStart?.prepared.chatMs,
  'the same, empty data folder': (subject) => subject?.coldStart?.empty.chatMs,
}

/** Empty if Tollgate was not measured. */
export function toSummaryTable(report: Report): string[] {
  const rows = Object.entries(ROWS).flatMap(([title, of]) => {
    const value = of(report.subjects.tollgate)
    return value === undefined ? [] : [[title, toFigure(value), ...toRatioCells(report, value, of)]]
  })
  return rows.length > 0 ? ['\nTollgate in short', toTable(['', 'tollgate', ...RATIO_TITLES], rows)] : []
}
