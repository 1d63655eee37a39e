/**
 * Cost of history: servers with few and many requests and keys side by side, and operator commands on the largest. Only
 * the build under test has these commands.
 */
import type { History } from './history.ts'
import { type JsonResult, loadJson } from './json-load.ts'
import { measureOperator, type OperatorResult, type OperatorShape } from './operator.ts'
import { CONNECTIONS, type PastFolder, serve, writePast } from './past.ts'
import type { Subject } from './subjects.ts'
import { median, medians } from './table.ts'

export interface DayTwoShape extends OperatorShape {
  /** Requests in the past. */
  requests: number
  keys: number
  starts: number
}

export interface PastResult extends History {
  /** From spawn to the first health answer, ms. */
  startMs: number
  /** Whole responses over 32 connections. */
  load: Record<keyof JsonResult, number>
}

export interface DayTwoResult {
  /** Database growth per request, rollup included. */
  bytesPerRequest: number
  pasts: PastResult[]
  operator: OperatorResult
}

const FEW = { requests: 1_000, keys: 10 }

export async function measureDayTwo(root: string, upstream: string, shape: DayTwoShape): Promise<DayTwoResult> {
  const pasts = [FEW, { ...FEW, keys: shape.keys }, { ...FEW, requests: shape.requests }]
  const folders: PastFolder[] = []
  let bytesPerRequest = 0
  for (const history of pasts) {
    console.error(`day two: writing ${history.requests} requests of ${history.keys} keys`)
    const { bytes, ...folder } = await writePast(history, root, upstream)
    folders.push(folder)
    bytesPerRequest = bytes / history.requests
  }
  const long = folders.at(-1) as PastFolder
  return {
    bytesPerRequest,
    pasts: await measurePasts(folders, upstream, shape),
    operator: await measureOperator(long, upstream, shape),
  }
}

async function measurePasts(
  folders: readonly PastFolder[],
  upstream: string,
  shape: DayTwoShape,
): Promise<PastResult[]> {
  const starts = folders.map((): number[] => [])
  for (let i = 0; i < shape.starts; i++)
    for (const [at, folder] of folders.entries()) {
      const { process, startMs } = await serve(folder, upstream)
      starts[at]?.push(startMs)
      await process.drain()
    }
  const servers: Subject[] = []
  for (const folder of folders) servers.push(await serve(folder, upstream))
  const loads = folders.map((): JsonResult[] => [])
  // The first two rounds warm up.
  for (let round = -2; round < shape.rounds; round++)
    for (const [at, server] of servers.entries()) {
      console.error(`day two: ${folders[at]?.history.requests} requests of ${folders[at]?.history.keys} keys`)
      const load = await loadJson(server, folders[at]?.folder ?? '', CONNECTIONS, shape.seconds * (round < 0 ? 3 : 1))
      if (round >= 0) loads[at]?.push(load)
    }
  for (const { process } of servers) await process.drain()
  return folders.map(({ history }, at) => ({
    ...history,
    startMs: median(starts[at] ?? []),
    load: medians(loads[at] ?? []),
  }))
}
