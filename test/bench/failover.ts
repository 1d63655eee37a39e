/**
 * Cost of a dead upstream: a model whose first route dies, next to one with only the live route. First requests after
 * the death, then both under load. A gateway for each way to die.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { findFreePort } from '../support/free-port.ts'
import { type JsonResult, loadJson, toChatBody } from './json-load.ts'
import { DEATHS, type Death, type Mortal, startMortal } from './mortal.ts'
import { fineCpuMicros } from './processes.ts'
import { type Subject, up } from './subjects.ts'
import { median, medians } from './table.ts'
import { type Build, startTollgate, toCatalog } from './tollgate.ts'

export interface FewResult {
  requests: number
  ok: number
  firstMs: number
  p50Ms: number
  slowestMs: number
  /** Beyond idle CPU, since a deadline is a long wait; null if the kernel doesn't report it. */
  cpuMicrosPerRequest: number | null
  /** Answered after more than one attempt. */
  fellBack: number
}

export interface FailoverResult {
  first: FewResult
  /** Just before the death, through only the live route. */
  firstLive: FewResult
  /** Both models in turn under the same load. */
  live: Record<keyof JsonResult, number>
  dead: Record<keyof JsonResult, number>
  cpuToLive: number
  p50ToLive: number
  /** Arrivals at the dead upstream under load; null for a closed port. */
  visits: { connections: number; calls: number; seconds: number } | null
}

export interface FailoverShape {
  rounds: number
  seconds: number
}

const LIVE = 'bench/live'
const BOTH = 'bench/both'
const FEW = 20
const WARM_UP = 300
const CONNECTIONS = 32
/** First-byte deadline of the dead upstream; the default is over a minute. */
export const DEADLINE = '1s'
/** An unreachable upstream is checked every 2 s at least, with a limit of 2 s. */
const SETTLE_MS = 5_000

export async function measureFailover(
  name: Build,
  root: string,
  upstream: string,
  shape: FailoverShape,
): Promise<Record<Death, FailoverResult>> {
  const results: Partial<Record<Death, FailoverResult>> = {}
  for (const death of DEATHS) {
    console.error(`failover, the first upstream ${death === 'silent' ? 'falls silent' : death}: ${name}`)
    results[death] = await measureDeath(name, join(root, 'failover', name, death), upstream, death, shape)
  }
  return results as Record<Death, FailoverResult>
}

async function measureDeath(
  name: Build,
  folder: string,
  upstream: string,
  death: Death,
  shape: FailoverShape,
): Promise<FailoverResult> {
  mkdirSync(folder, { recursive: true })
  const mortal = await startMortal()
  const subject = await up(
    await startTollgate(name, folder, await findFreePort(), upstream, toRoutes(upstream, mortal)),
  )
  for (const model of [LIVE, BOTH]) await askFew({ ...subject, model }, WARM_UP)
  const firstLive = await askFew({ ...subject, model: LIVE }, FEW)
  await mortal.die(death)
  const first = await askFew({ ...subject, model: BOTH }, FEW)
  await Bun.sleep(SETTLE_MS)

  mortal.take()
  const began = performance.now()
  const live: JsonResult[] = []
  const dead: JsonResult[] = []
  for (let round = 0; round < shape.rounds; round += 1) {
    live.push(await loadJson({ ...subject, model: LIVE }, folder, CONNECTIONS, shape.seconds))
    dead.push(await loadJson({ ...subject, model: BOTH }, folder, CONNECTIONS, shape.seconds))
  }
  const visits = { ...mortal.take(), seconds: (performance.now() - began) / 1000 }
  await subject.process.stop()
  await mortal.stop()
  const [liveMedians, deadMedians] = [medians(live), medians(dead)]
  return {
    first,
    firstLive,
    live: liveMedians,
    dead: deadMedians,
    cpuToLive: deadMedians.cpuMicrosPerRequest / liveMedians.cpuMicrosPerRequest,
    p50ToLive: deadMedians.p50Ms / liveMedians.p50Ms,
    visits: death === 'refuses' ? null : visits,
  }
}

function toRoutes(upstream: string, mortal: Mortal): string {
  const deadlines = { headers: DEADLINE, first_token: DEADLINE, total_whole: DEADLINE }
  const live = { upstream: 'live', priority: 1 }
  return toCatalog(
    { mortal: { base_url: `${mortal.origin}/v1`, deadlines }, live: { base_url: `${upstream}/v1` } },
    { [LIVE]: [live], [BOTH]: [{ upstream: 'mortal', priority: 0 }, live] },
  )
}

/** Sequential; failures are counted, never thrown. */
async function askFew(subject: Subject, requests: number): Promise<FewResult> {
  const headers = { authorization: `Bearer ${subject.key}`, 'content-type': 'application/json' }
  const body = toChatBody(subject.model)
  const { pid } = subject.process
  const times: number[] = []
  let ok = 0
  let fellBack = 0
  const idlePerMs = await idleCpuPerMs(pid)
  const before = fineCpuMicros(pid)
  const started = performance.now()
  for (let i = 0; i < requests; i += 1) {
    const began = performance.now()
    const answer = await fetch(`${subject.origin}/v1/chat/completions`, { method: 'POST', headers, body })
    await answer.text()
    times.push(performance.now() - began)
    if (answer.ok) ok += 1
    if (Number(answer.headers.get('x-tollgate-attempts') ?? 1) > 1) fellBack += 1
  }
  const after = fineCpuMicros(pid)
  const idle = (idlePerMs ?? 0) * (performance.now() - started)
  return {
    requests,
    ok,
    firstMs: times[0] ?? 0,
    p50Ms: median(times),
    slowestMs: Math.max(...times),
    cpuMicrosPerRequest: before === null || after === null ? null : Math.max(0, after - before - idle) / requests,
    fellBack,
  }
}

async function idleCpuPerMs(pid: number): Promise<number | null> {
  const before = fineCpuMicros(pid)
  const began = performance.now()
  await Bun.sleep(500)
  const after = fineCpuMicros(pid)
  return before === null || after === null ? null : (after - before) / (performance.now() - began)
}
