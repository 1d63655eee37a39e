/**
 * What a request and a chunk cost each subject, in CPU, and how soon they are answered: whole answers over 1 and 32
 * connections, 200 paced streams and, through a fresh process of each, 1,000. All subjects run side by side: each is
 * warmed up on its own, then they are measured in turn, round by round. Called by `main.ts`.
 */
import { join } from 'node:path'
import { type JsonResult, loadJson } from './json-load.ts'
import type { Load } from './loads.ts'
import type { SubjectReport } from './report.ts'
import { loadStreams, type StreamResult, type StreamShape } from './stream-load.ts'
import { type Subject, type SubjectName, startSubject } from './subjects.ts'
import { medians } from './table.ts'
import { type Slice, type WarmUp, warmUp } from './warm-up.ts'

/** How long each load is, and how much of it. */
export interface RoundShape {
  json1: { seconds: number }
  json32: { seconds: number }
  streams200: StreamShape
}

export interface CostShape {
  rounds: number
  round: RoundShape
  streams1000: StreamShape
  /** How long one subject may take to be warm. */
  warmUpS: number
  /** What warms it up, again and again. */
  slice: RoundShape
}

type NamedSubject = Subject & { name: SubjectName }
/** Results of one subject, by load; of those that were not asked for there are none. */
type Results = { json1: JsonResult[]; json32: JsonResult[]; streams200: StreamResult[] }

/** Measures those of the loads that are asked for, and merges each result into its subject's report. */
export async function measureCost(
  names: readonly SubjectName[],
  loads: readonly Load[],
  root: string,
  upstream: string,
  shape: CostShape,
  merge: (name: SubjectName, part: SubjectReport) => void,
): Promise<void> {
  if (loads.some((load) => load !== 'streams1000')) {
    const subjects: NamedSubject[] = []
    for (const name of names) subjects.push({ ...(await startSubject(name, root, upstream)), name })
    for (const subject of subjects) merge(subject.name, { warmUp: await warmUpSubject(subject, loads, root, shape) })
    for (const [name, result] of await measureRounds(subjects, loads, root, shape)) merge(name, result)
    await Promise.all(subjects.map(({ process }) => process.stop()))
  }
  if (!loads.includes('streams1000')) return
  for (const name of names) merge(name, { streams1000: await measureMany(name, root, upstream, shape.streams1000) })
}

async function warmUpSubject(
  subject: NamedSubject,
  loads: readonly Load[],
  root: string,
  { slice, warmUpS }: CostShape,
): Promise<WarmUp> {
  const ofRequest = (result: JsonResult): Slice => ({
    cpuMicros: result.cpuMicrosPerRequest,
    jitMicros: result.jitMicrosPerRequest,
  })
  const ofChunk = (result: StreamResult): Slice => ({
    cpuMicros: result.cpuMicrosPerChunk,
    jitMicros: result.jitMicrosPerChunk,
  })
  const { json1, json32, streams200 } = slice
  const all: Partial<Record<Load, () => Promise<Slice>>> = {
    json1: async () => ofRequest(await loadJson(subject, root, 1, json1.seconds)),
    json32: async () => ofRequest(await loadJson(subject, root, 32, json32.seconds)),
    streams200: async () => ofChunk(await loadStreams(subject, streams200)),
  }
  const asked = Object.entries(all).filter(([load]) => loads.some((one) => one === load))
  const result = await warmUp(Object.fromEntries(asked), warmUpS)
  const state = result.quiet ? 'warm' : 'STILL COMPILING'
  console.error(`warm-up: ${subject.name} ${state} after ${result.seconds.toFixed(0)} s`)
  return result
}

async function measureRounds(
  subjects: readonly NamedSubject[],
  loads: readonly Load[],
  root: string,
  { rounds, round: { json1, json32, streams200 } }: CostShape,
): Promise<[SubjectName, SubjectReport][]> {
  const all = subjects.map((subject) => ({
    subject,
    results: { json1: [], json32: [], streams200: [] } as Results,
  }))
  for (let round = 1; round <= rounds; round += 1) {
    for (const { subject, results } of all) {
      console.error(`round ${round} of ${rounds}: ${subject.name}`)
      if (loads.includes('json1')) results.json1.push(await loadJson(subject, root, 1, json1.seconds))
      if (loads.includes('json32')) results.json32.push(await loadJson(subject, root, 32, json32.seconds))
      if (loads.includes('streams200')) results.streams200.push(await loadStreams(subject, streams200))
    }
  }
  return all.map(({ subject, results }) => {
    const measured = Object.entries(results).filter(([, each]) => each.length > 0)
    return [subject.name, Object.fromEntries(measured.map(([load, each]) => [load, medians<object>(each)]))]
  })
}

/** A thousand streams through a fresh process, so that its memory is theirs; its CPU is that of a cold one. */
async function measureMany(name: SubjectName, root: string, upstream: string, shape: StreamShape) {
  console.error(`${shape.streams} streams: ${name}`)
  const subject = await startSubject(name, join(root, 'many'), upstream)
  await Bun.sleep(500)
  const result = await loadStreams(subject, shape)
  await subject.process.stop()
  return medians([result])
}
