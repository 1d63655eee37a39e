/**
 * Memory a server keeps after many requests, after a burst of large ones, and with a reader that stalls. The smallest
 * proxy shows the runtime's part.
 */
import { join } from 'node:path'
import { type ExchangeResult, type ExchangeShape, exchange } from './exchange.ts'
import { toChatBody } from './json-load.ts'
import { followRss, warmToIdle, watchReturn } from './memory.ts'
import { readSlowly, type SlowResult } from './slow-reader.ts'
import { type Subject, type SubjectName, startSubject } from './subjects.ts'
import { BUILDS, MODEL } from './tollgate.ts'

/** MB. `returnedAfterS` is null if it never returned, 0 if it never left. */
export interface SoakPhase {
  idle: number
  peak: number
  after: number
  afterToIdle: number
  returnedAfterS: number | null
  watchedS: number
  requests: number
  ok: number
}

export interface SoakResult {
  requests: SoakPhase
  burst: SoakPhase
  /** Only builds of Tollgate: the smallest proxy would keep the whole stream. */
  slow?: SlowResult
}

export interface SoakShape {
  requests: number
  burst: number
  watchS: number
  slowS: number
}

const SOAKED: readonly SubjectName[] = ['floor', 'tollgate', 'before']
const BURST_BYTES = 150_000

/** All subjects through each load in turn, then watches them together. */
export async function measureSoak(
  names: readonly SubjectName[],
  root: string,
  upstream: string,
  shape: SoakShape,
): Promise<Map<SubjectName, SoakResult>> {
  const subjects: { name: SubjectName; subject: Subject; idle: number }[] = []
  for (const name of names.filter((known) => SOAKED.includes(known))) {
    const subject = await startSubject(name, join(root, 'soak'), upstream)
    subjects.push({ name, subject, idle: await warmToIdle(subject) })
  }
  const loadAll = async (what: string, load: ExchangeShape) => {
    const watched: Promise<[SubjectName, SoakPhase]>[] = []
    for (const { name, subject, idle } of subjects) {
      console.error(`soak, ${what}: ${name}`)
      const { result, watching } = await runPhase(subject, idle, load, shape.watchS)
      if (result.firstError !== null) console.error(`  ${name}: ${result.firstError}`)
      watched.push(watching.then((phase) => [name, phase]))
    }
    console.error(`soak, watching for ${shape.watchS} s`)
    return watched
  }
  const small = { connections: 32, requests: shape.requests, body: toChatBody(MODEL), together: false }
  const watched = await loadAll(`${shape.requests} requests`, small)
  // Watching and not reading are free, so they share the time.
  const slow = await readAllSlowly(names, root, shape.slowS)
  const requests = new Map(await Promise.all(watched))
  const large = { connections: shape.burst, requests: shape.burst, body: toLargeBody(), together: true }
  const burst = new Map(
    await Promise.all(await loadAll(`${shape.burst} bodies of ${BURST_BYTES / 1000} kB at once`, large)),
  )
  await Promise.all(subjects.map(({ subject }) => subject.process.stop()))

  const results = new Map<SubjectName, SoakResult>()
  for (const { name } of subjects) {
    const [first, second, third] = [requests.get(name), burst.get(name), slow.get(name)]
    if (first && second) results.set(name, { requests: first, burst: second, ...(third ? { slow: third } : {}) })
  }
  return results
}

async function readAllSlowly(
  names: readonly SubjectName[],
  root: string,
  seconds: number,
): Promise<Map<SubjectName, SlowResult>> {
  const results = new Map<SubjectName, SlowResult>()
  for (const name of BUILDS.filter((build) => names.includes(build))) {
    console.error(`soak, a reader that stops for ${seconds} s: ${name}`)
    results.set(name, await readSlowly(name, join(root, 'slow'), seconds))
  }
  return results
}

/** Resolves after the load; `watching` continues. */
async function runPhase(
  subject: Subject,
  idle: number,
  load: ExchangeShape,
  watchS: number,
): Promise<{ result: ExchangeResult; watching: Promise<SoakPhase> }> {
  const { pid } = subject.process
  const follower = followRss(pid)
  const result = await exchange(subject, load)
  const watching = watchReturn(pid, idle, watchS).then(({ rssAfter, returnedAfterS }) => {
    follower.stop()
    const { requests, ok } = result
    const peak = follower.peak()
    return { idle, peak, after: rssAfter, afterToIdle: rssAfter / idle, returnedAfterS, watchedS: watchS, requests, ok }
  })
  return { result, watching }
}

function toLargeBody(): string {
  const content = 'A gateway must not keep what it has passed on. '
    .repeat(Math.ceil(BURST_BYTES / 47))
    .slice(0, BURST_BYTES)
  return JSON.stringify({ model: MODEL, messages: [{ role: 'user', content }] })
}
