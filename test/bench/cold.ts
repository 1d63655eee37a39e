/**
 * Time from start to a health check and a chat response, on a used, a killed, and an empty folder. Medians of several
 * runs.
 */
import { mkdirSync, mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { findFreePort } from '../support/free-port.ts'
import { toChatBody } from './json-load.ts'
import { rssMegabytes, startProcess, waitUntilUp } from './processes.ts'
import { median } from './table.ts'
import { type Build, binaryOf, MODEL, readFirstKey, toPlainCatalog, toServe } from './tollgate.ts'

/** In ms from spawn to the first 200. */
export interface ColdTimes {
  healthMs: number
  chatMs: number
}

export interface ColdResult {
  runs: number
  prepared: ColdTimes
  killed: ColdTimes
  empty: ColdTimes
  idleRssMegabytes: number
}

/** By then, memory is that of an idle server. */
const IDLE_MS = 1_000

interface Run {
  healthMs: number
  chatMs: number
  rssMegabytes: number
  key: string
}

/** Alternates, so that a busy machine affects all alike. */
export async function measureCold(
  builds: readonly Build[],
  root: string,
  upstream: string,
  runs: number,
): Promise<Map<Build, ColdResult>> {
  const folder = join(root, 'cold')
  mkdirSync(folder, { recursive: true })
  const all = builds.map((build) => ({ build, empty: [] as Run[], prepared: [] as Run[], killed: [] as Run[] }))
  for (let i = 0; i < runs; i += 1) {
    for (const { build, empty, prepared, killed } of all) {
      const data = mkdtempSync(join(folder, 'run-'))
      const start = (key: string | null, end: 'drain' | 'stop', restMs = 0) =>
        startOnce(binaryOf(build), data, upstream, key, end, restMs)
      const first = await start(null, 'drain')
      empty.push(first)
      prepared.push(await start(first.key, 'stop', IDLE_MS))
      killed.push(await start(first.key, 'drain'))
    }
  }
  return new Map(
    all.map(({ build, empty, prepared, killed }) => [
      build,
      {
        runs,
        prepared: toTimes(prepared),
        killed: toTimes(killed),
        empty: toTimes(empty),
        idleRssMegabytes: median(prepared.map((run) => run.rssMegabytes)),
      },
    ]),
  )
}

const toTimes = (all: readonly Run[]): ColdTimes => ({
  healthMs: median(all.map(({ healthMs }) => healthMs)),
  chatMs: median(all.map(({ chatMs }) => chatMs)),
})

/** Rests `restMs` after one request. */
async function startOnce(
  binary: string,
  folder: string,
  upstream: string,
  knownKey: string | null,
  end: 'drain' | 'stop',
  restMs: number,
): Promise<Run> {
  const port = await findFreePort()
  const { command, logFile } = toServe(folder, port, toPlainCatalog(upstream), binary)
  const began = performance.now()
  const started = startProcess(knownKey === null ? [...command, '--first-key'] : command, logFile)
  try {
    const origin = `http://127.0.0.1:${port}`
    await waitUntilUp(`${origin}/healthz`, {}, 10_000, 1)
    const healthMs = performance.now() - began
    const key = knownKey ?? (await readFirstKey(logFile))
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const chat = { method: 'POST', headers, body: toChatBody(MODEL) }
    await (await waitUntilUp(`${origin}/v1/chat/completions`, chat, 10_000, 1)).text()
    const chatMs = performance.now() - began
    await Bun.sleep(restMs)
    return { healthMs, chatMs, rssMegabytes: rssMegabytes(started.pid), key }
  } finally {
    await started[end]()
  }
}
