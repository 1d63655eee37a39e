/**
 * `bun run bench`: the cost of Tollgate, limits and routing on, beside the smallest Bun proxy and nginx, in one run, on
 * one upstream, interleaved round by round so that a busy machine is unfair to all alike. Then what a server keeps of what
 * has passed (soak) and what a dead upstream costs (failover). Prints tables and writes the same as JSON.
 *
 * `--quick` shortens everything · `--only json|streams|cold|soak|failover` ·
 * `--subjects floor,tollgate,nginx,floor-piped,before` · `--json FILE` (dist/bench.json).
 * TOLLGATE_BINARY names the build to measure (dist/tollgate); `before` is another one, which TOLLGATE_BEFORE names.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { measureCold } from './cold.ts'
import { measureFailover } from './failover.ts'
import { type JsonResult, loadJson } from './json-load.ts'
import { guardChildren, type Started } from './processes.ts'
import { type Report, type SubjectReport, toRatios, toText } from './report.ts'
import { measureSoak } from './soak.ts'
import { loadStreams, type StreamResult, type StreamShape } from './stream-load.ts'
import { SUBJECTS, type Subject, type SubjectName, startBenchUpstream, startSubject, whyMissing } from './subjects.ts'
import { medians } from './table.ts'
import { BUILDS } from './tollgate.ts'

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    subjects: { type: 'string', default: 'floor,floor-piped,tollgate,nginx' },
    json: { type: 'string', default: resolve(import.meta.dir, '../../dist/bench.json') },
  },
})

const ROUNDS = 3
const JSON_SECONDS = values.quick ? 1 : 5
const COLD_RUNS = values.quick ? 3 : 9
// 200 x 50 chunks a second is some 10,000 chunks a second: well measurable, and no core is full.
const BUSY: StreamShape = { streams: 200, paceMs: 20, tokens: values.quick ? 75 : 250 }
const MANY: StreamShape = { streams: 1_000, paceMs: 150, tokens: values.quick ? 20 : 40 }
const SOAK = values.quick
  ? { requests: 5_000, burst: 300, watchS: 10, slowS: 6 }
  : { requests: 60_000, burst: 1_500, watchS: 60, slowS: 30 }
// Long enough to see a breaker half open and try again.
const FAILOVER = { rounds: ROUNDS, seconds: values.quick ? 1 : 3 }

const PARTS = ['json', 'streams', 'cold', 'soak', 'failover'] as const
const wants = (...parts: (typeof PARTS)[number][]) => parts.some((part) => (values.only ?? part) === part)

function chooseSubjects(): SubjectName[] {
  const asked = values.subjects.split(',')
  const unknown = asked.filter((name) => !SUBJECTS.some((known) => known === name))
  if (unknown.length > 0) fail(`unknown subject: ${unknown.join(', ')}; there are ${SUBJECTS.join(', ')}`)
  return SUBJECTS.filter((name) => {
    if (!asked.includes(name)) return false
    const missing = whyMissing(name)
    if (missing !== null) console.error(`left out: ${missing}`)
    return missing === null
  })
}

function fail(sentence: string): never {
  console.error(sentence)
  process.exit(1)
}

async function measure(root: string): Promise<Report> {
  const names = chooseSubjects()
  const upstream = await startBenchUpstream(root)
  const report: Report = {
    machine: `${cpus()[0]?.model ?? 'unknown'} x ${cpus().length}`,
    bun: Bun.version,
    subjects: {},
    took: {},
  }
  const timed = async (part: string, run: () => Promise<void>) => {
    const began = performance.now()
    await run()
    report.took[part] = (performance.now() - began) / 1000
  }
  const merge = (name: SubjectName, part: SubjectReport) => {
    report.subjects[name] = { ...report.subjects[name], ...part }
  }
  if (wants('json', 'streams'))
    await timed('requests and streams', () => measureCost(names, root, upstream.origin, merge))
  if (wants('cold') && names.includes('tollgate'))
    await timed('cold start', async () => {
      console.error('cold start')
      report.cold = await measureCold(root, upstream.origin, COLD_RUNS)
    })
  if (wants('soak'))
    await timed('soak', async () => {
      for (const [name, soak] of await measureSoak(names, root, upstream.origin, SOAK)) merge(name, { soak })
    })
  if (wants('failover'))
    await timed('failover', async () => {
      for (const name of BUILDS.filter((build) => names.includes(build)))
        merge(name, { failover: await measureFailover(name, root, upstream.origin, FAILOVER) })
    })
  await upstream.process.stop()
  return report
}

type Merge = (name: SubjectName, part: SubjectReport) => void

async function measureCost(names: readonly SubjectName[], root: string, upstream: string, merge: Merge): Promise<void> {
  const subjects: (Subject & { name: SubjectName })[] = []
  for (const name of names) subjects.push({ ...(await startSubject(name, root, upstream)), name })
  await warmUp(subjects, root)
  const rounds = await runRounds(subjects, root)
  for (const { name } of subjects) {
    if (wants('json'))
      merge(name, { json1: medians(rounds.json1.get(name) ?? []), json32: medians(rounds.json32.get(name) ?? []) })
    if (wants('streams')) merge(name, { streams200: medians(rounds.streams.get(name) ?? []) })
  }
  if (wants('streams')) await measureMany(names, root, upstream, merge)
  await stopAll(subjects.map(({ process }) => process))
}

async function warmUp(subjects: readonly Subject[], root: string): Promise<void> {
  for (const subject of subjects) {
    if (wants('json')) await loadJson(subject, root, 32, values.quick ? 1 : 4)
    if (wants('streams')) await loadStreams(subject, { streams: 200, paceMs: 20, tokens: 25 })
  }
}

async function runRounds(subjects: readonly Subject[], root: string) {
  const json1 = new Map<string, JsonResult[]>()
  const json32 = new Map<string, JsonResult[]>()
  const streams = new Map<string, StreamResult[]>()
  const keep = <T>(results: Map<string, T[]>, name: string, result: T) =>
    results.set(name, [...(results.get(name) ?? []), result])
  for (let round = 1; round <= ROUNDS; round += 1) {
    for (const subject of subjects) {
      const { name } = subject
      console.error(`round ${round} of ${ROUNDS}: ${name}`)
      if (wants('json')) keep(json1, name, await loadJson(subject, root, 1, JSON_SECONDS))
      if (wants('json')) keep(json32, name, await loadJson(subject, root, 32, JSON_SECONDS))
      if (wants('streams')) keep(streams, name, await loadStreams(subject, BUSY))
    }
  }
  return { json1, json32, streams }
}

/** A thousand streams through a fresh process of each, so that its memory is theirs. */
async function measureMany(names: readonly SubjectName[], root: string, upstream: string, merge: Merge): Promise<void> {
  for (const name of names) {
    console.error(`${MANY.streams} streams: ${name}`)
    const subject = await startSubject(name, join(root, 'many'), upstream)
    await Bun.sleep(500)
    const result = await loadStreams(subject, MANY)
    await subject.process.stop()
    merge(name, { streams1000: medians([result]) })
  }
}

const stopAll = (processes: readonly Started[]) => Promise.all(processes.map((child) => child.stop()))

if (values.only !== undefined && !PARTS.some((part) => part === values.only))
  fail(`unknown part: ${values.only}; there are ${PARTS.join(', ')}`)
if (!Bun.which('wrk') && wants('json', 'failover')) fail('wrk is not installed: apt-get install -y wrk')
const root = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
guardChildren(15 * 60_000)
process.on('exit', () => rmSync(root, { recursive: true, force: true }))
const report = await measure(root)
console.log(toText(report))
mkdirSync(dirname(values.json), { recursive: true })
writeFileSync(values.json, `${JSON.stringify({ ...report, ratios: toRatios(report) }, null, 2)}\n`)
console.log(`\nas JSON in ${values.json}`)
process.exit(0)
