/** Results relative to the smallest proxy, in both its forms, and to the previous build. Pure. */
import { isJsonLoad, LOADS, type Load } from './loads.ts'
import type { Report, SubjectReport } from './report.ts'
import { toRatio } from './table.ts'

const BASES = [
  { name: 'toFloor', title: 'to floor', subject: 'floor' },
  { name: 'toPiped', title: 'to piped', subject: 'floor-piped' },
  { name: 'toBefore', title: 'to before', subject: 'before' },
] as const

/** Headings of the cells that `toRatioCells` returns. */
export const RATIO_TITLES = BASES.map(({ title }) => title)

type Figure = (subject: SubjectReport | undefined) => number | undefined

/** Converts a figure of one subject to its ratios; `-` if there is nothing to compare with. */
export const toRatioCells = (report: Report, value: number, of: Figure): string[] =>
  BASES.map(({ subject }) => toRatio(value, of(report.subjects[subject])))

/** CPU per request or chunk of one load; undefined if not measured. */
export function cpuOf(subject: SubjectReport | undefined, load: Load): number | undefined {
  if (isJsonLoad(load)) return subject?.[load]?.cpuMicrosPerRequest
  return subject?.[load]?.cpuMicrosPerChunk
}

/** Ratios of CPU, by load, subject, and baseline. */
export function toRatios(report: Report): Record<string, Record<string, Record<string, number>>> {
  const toLoad = (load: Load) =>
    Object.entries(report.subjects).flatMap(([name, subject]) => {
      const cpu = cpuOf(subject, load)
      if (cpu === undefined) return []
      const ratios = BASES.flatMap((base) => {
        const other = cpuOf(report.subjects[base.subject], load)
        return other ? [[base.name, Number((cpu / other).toFixed(3))] as const] : []
      })
      return [[name, Object.fromEntries(ratios)] as const]
    })
  return Object.fromEntries(LOADS.map((load) => [load, Object.fromEntries(toLoad(load))]))
}
