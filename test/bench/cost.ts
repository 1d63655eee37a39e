/**
 * CPU and latency per request and chunk of each subject: whole responses, 64 kB conversations, 200 streams, and 1,000
 * through a new process. Subjects are warmed up, then measured in turn.
 */
import { join } from 'node:path'
import { type JsonResult, loadJson, toLargeChatBody } from './json-load.ts'
import { isJsonLoad, type JsonLoad, type Load, type StreamLoad } from './loads.ts'
import type { SubjectReport } from './report.ts'
import { loadStreams, type StreamResult, type StreamShape } from './stream-load.ts'
import type { Subject } from './subjects.ts'
import { medians } from './table.ts'
import { type Slice, type WarmUp, warmUp } from './warm-up.ts'

/** Duration and amount of each load. */
export type RoundShape = Record<JsonLoad, { seconds: number }> & { streams: StreamShape }

export interface CostShape {
  /** One process may cost 5% more than another of the same program, for its whole life. */
  processes: number
  rounds: number
  /** Turns of whole responses per round. */
  jsonTurns: number
  round: RoundShape
  streams1000: StreamShape
  /** Warm-up limit of a subject. */
  warmUpS: number
  slice: RoundShape
}

type RoundLoad = JsonLoad | StreamLoad
export type Start = (name: string, root: string) => Promise<Subject>

export async function measureCost(
  names: readonly string[],
  asked: readonly Load[],
  root: string,
  start: Start,
  shape: CostShape,
  merge: (name: string, part: SubjectReport) => void,
): Promise<void> {
  const loads = asked.filter((load) => load !== 'streams1000')
  if (loads.length > 0) {
    const subjects: Subject[] = []
    for (let number = 1; number <= shape.processes; number++)
      for (const name of names) subjects.push(await start(name, join(root, String(number))))
    const loud = new Set<string>()
    for (const subject of subjects) {
      const warm = await warmUpSubject(subject, loads, root, shape)
      if (!loud.has(subject.name)) merge(subject.name, { warmUp: warm })
      if (!warm.quiet) loud.add(subject.name)
    }
    for (const [name, result] of await measureRounds(subjects, loads, root, shape)) merge(name, result)
    await Promise.all(subjects.map(({ process }) => process.stop()))
  }
  if (!asked.includes('streams1000')) return
  for (const name of names) merge(name, { streams1000: await measureMany(name, root, start, shape.streams1000) })
}

const loadRequests = (subject: Subject, load: JsonLoad, root: string, { [load]: { seconds } }: RoundShape) =>
  loadJson(
    subject,
    root,
    load === 'json1' ? 1 : 32,
    seconds,
    load === 'json64k' ? toLargeChatBody(subject.model) : undefined,
  )

async function warmUpSubject(
  subject: Subject,
  loads: readonly RoundLoad[],
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
  const run = async (load: RoundLoad) =>
    isJsonLoad(load)
      ? ofRequest(await loadRequests(subject, load, root, slice))
      : ofChunk(await loadStreams(subject, slice.streams, load))
  const result = await warmUp(Object.fromEntries(loads.map((load) => [load, () => run(load)])), warmUpS)
  const state = result.quiet ? 'warm' : 'STILL COMPILING'
  console.error(`warm-up: ${subject.name} ${state} after ${result.seconds.toFixed(0)} s`)
  return result
}

/** By load, all subjects in turn, starting with another each round: the machine's other work changes within seconds. */
async function measureRounds(
  subjects: readonly Subject[],
  loads: readonly RoundLoad[],
  root: string,
  { rounds, jsonTurns, round: shape }: CostShape,
): Promise<[string, SubjectReport][]> {
  const results = new Map(
    subjects.map(({ name }) => [
      name,
      new Map<RoundLoad, (JsonResult | StreamResult)[]>(loads.map((load) => [load, []])),
    ]),
  )
  for (let round = 1; round <= rounds; round += 1) {
    for (const load of loads) {
      console.error(`round ${round} of ${rounds}: ${load}`)
      const turns = isJsonLoad(load) ? jsonTurns : 1
      for (let turn = 0; turn < turns; turn++) {
        for (let at = 0; at < subjects.length; at++) {
          const subject = subjects[(at + turn + round) % subjects.length] as Subject
          const result = isJsonLoad(load)
            ? await loadRequests(subject, load, root, shape)
            : await loadStreams(subject, shape.streams, load)
          results.get(subject.name)?.get(load)?.push(result)
        }
      }
    }
  }
  return [...results].map(([name, each]) => [
    name,
    Object.fromEntries([...each].map(([load, all]) => [load, medians<object>(all)])),
  ])
}

/** A new process, so that memory is only the streams'; its CPU includes compiling. */
async function measureMany(name: string, root: string, start: Start, shape: StreamShape) {
  console.error(`${shape.streams} streams: ${name}`)
  const subject = await start(name, join(root, 'many'))
  await Bun.sleep(500)
  const result = await loadStreams(subject, shape)
  await subject.process.stop()
  return medians([result])
}
