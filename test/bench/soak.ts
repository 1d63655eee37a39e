/**
 * Memory under memory-intensive loads, memory that a server keeps 30 s after each, and under mixed load over minutes.
 * Then with a reader that stalls. The smallest proxy shows the runtime's share.
 */
import { join } from 'node:path'
import { type ExchangeShape, exchange } from './exchange.ts'
import { toChatBody } from './json-load.ts'
import { followRss, warmToIdle, watchReturn } from './memory.ts'
import { loadMixed } from './mixed-load.ts'
import { rssMegabytes } from './processes.ts'
import { readSlowly, type SlowResult } from './slow-reader.ts'
import { loadStreams } from './stream-load.ts'
import { type Subject, type SubjectName, startSubject } from './subjects.ts'
import { BUILDS, MODEL } from './tollgate.ts'

/** MB. `returnedAfterS` is null if it never returned, 0 if it never left. */
export interface SoakPhase {
  idle: number
  peak: number
  after: number
  afterToIdle: number
  returnedAfterS: number | null
  requests: number
  ok: number
  /** During the load, one a minute. */
  minutes: number[]
}

export interface SoakResult {
  watchedS: number
  phases: Record<string, SoakPhase>
  /** Only builds of Tollgate: the smallest proxy would keep the whole stream. */
  slow?: SlowResult
}

export interface SoakShape {
  requests: number
  burst: number
  streams: number
  mixedMinutes: number
  watchS: number
  slowS: number
}

type Load = (subject: Subject) => Promise<{ requests: number; ok: number; firstError: string | null }>

const SOAKED: readonly SubjectName[] = ['floor', 'tollgate', 'before']
const BURST_BYTES = 150_000
const LARGE = { bodies: 100, bytes: 1_000_000 }
const MIXED_PER_SECOND = 100
const MINUTE_MS = 60_000

/** All subjects through each load in turn, then watches them together. */
export async function measureSoak(
  names: readonly SubjectName[],
  root: string,
  upstream: string,
  shape: SoakShape,
): Promise<Map<SubjectName, SoakResult>> {
  const subjects: { name: SubjectName; subject: Subject; idle: number }[] = []
  const results = new Map<SubjectName, SoakResult>()
  for (const name of names.filter((known) => SOAKED.includes(known))) {
    const subject = await startSubject(name, join(root, 'soak'), upstream)
    subjects.push({ name, subject, idle: await warmToIdle(subject) })
    results.set(name, { watchedS: shape.watchS, phases: {} })
  }
  for (const [what, load] of Object.entries(toLoads(shape))) {
    const watched: Promise<void>[] = []
    for (const { name, subject, idle } of subjects) {
      console.error(`soak, ${what}: ${name}`)
      const { watching } = await runPhase(subject, idle, load, shape.watchS)
      watched.push(
        watching.then((phase) => {
          const result = results.get(name)
          if (result) result.phases[what] = phase
        }),
      )
    }
    console.error(`soak, watching for ${shape.watchS} s`)
    await Promise.all(watched)
  }
  await Promise.all(subjects.map(({ subject }) => subject.process.stop()))
  for (const name of BUILDS.filter((build) => names.includes(build))) {
    console.error(`soak, a reader that stops for ${shape.slowS} s: ${name}`)
    const slow = await readSlowly(name, join(root, 'slow'), shape.slowS)
    const result = results.get(name)
    if (result) result.slow = slow
  }
  return results
}

function toLoads({ requests, burst, streams, mixedMinutes }: SoakShape): Record<string, Load> {
  const small = { connections: 32, requests, body: toChatBody(MODEL), together: false }
  return {
    [`${requests} requests`]: (subject) => exchange(subject, small),
    [`${burst} bodies of ${BURST_BYTES / 1_000} kB at once`]: (subject) =>
      exchange(subject, toBurst(burst, BURST_BYTES)),
    [`${LARGE.bodies} bodies of ${LARGE.bytes / 1_000_000} MB at once`]: (subject) =>
      exchange(subject, toBurst(LARGE.bodies, LARGE.bytes)),
    [`${streams} streams`]: async (subject) => {
      const { complete } = await loadStreams(subject, { streams, tokens: 40, paceMs: 150 })
      return { requests: streams, ok: complete, firstError: null }
    },
    [`${mixedMinutes} min of mixed load`]: (subject) => loadMixed(subject, mixedMinutes * 60, MIXED_PER_SECOND),
  }
}

const toBurst = (bodies: number, bytes: number): ExchangeShape => ({
  connections: bodies,
  requests: bodies,
  body: toLargeBody(bytes),
  together: true,
})

/** Resolves after the load; `watching` continues. */
async function runPhase(
  subject: Subject,
  idle: number,
  load: Load,
  watchS: number,
): Promise<{ watching: Promise<SoakPhase> }> {
  const { pid } = subject.process
  const follower = followRss(pid)
  const minutes: number[] = []
  const minutely = setInterval(() => minutes.push(rssMegabytes(pid)), MINUTE_MS)
  const { requests, ok, firstError } = await load(subject)
  clearInterval(minutely)
  if (firstError !== null) console.error(`  ${subject.name}: ${firstError}`)
  const watching = watchReturn(pid, idle, watchS).then(({ rssAfter, returnedAfterS }) => {
    follower.stop()
    const peak = follower.peak()
    return { idle, peak, after: rssAfter, afterToIdle: rssAfter / idle, returnedAfterS, requests, ok, minutes }
  })
  return { watching }
}

function toLargeBody(bytes: number): string {
  const content = 'A gateway must not keep what it has passed on. '.repeat(Math.ceil(bytes / 47)).slice(0, bytes)
  return JSON.stringify({ model: MODEL, messages: [{ role: 'user', content }] })
}
