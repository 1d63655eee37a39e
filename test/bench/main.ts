/**
 * `bun run bench`: Tollgate with limits and routing next to the smallest Bun proxy and nginx, on one upstream, round by
 * round. Then soak and failover. Prints tables and writes JSON. `--quick` · `--only
 * json1,json32,json64k,streams200,native200,translated200,streams1000,cold,soak,failover,day-two, dashboard` (`json`
 * and `streams` mean all of theirs) · `--subjects floor,floor-piped,tollgate,before,nginx` · `--peers FILE` (see
 * `peers.ts`) · `--processes N` (per subject, 1) · `--minutes N` (of soak's mixed load, 1) · `--json FILE` (dist/bench.json). TOLLGATE_BINARY names the build
 * (dist/tollgate), TOLLGATE_BEFORE another one, TOLLGATE_FLAGS flags of the first. See README.md.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { messageOf } from '../../src/domain/error.ts'
import { CHROMIUM } from '../browser/engine.ts'
import { measureCold } from './cold.ts'
import { type CostShape, measureCost } from './cost.ts'
import { measureDashboard } from './dashboard.ts'
import { measureDayTwo } from './day-two.ts'
import { measureFailover } from './failover.ts'
import { JSON_LOADS, LOADS, STREAM_LOADS } from './loads.ts'
import { type Peer, readPeers, startPeer } from './peers.ts'
import { guardChildren } from './processes.ts'
import { toRatios } from './ratios.ts'
import { type Report, type SubjectReport, toText } from './report.ts'
import { measureSoak } from './soak.ts'
import { SUBJECTS, type SubjectName, startBenchUpstream, startSubject, whyMissing } from './subjects.ts'
import { BEFORE, BUILDS } from './tollgate.ts'

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    subjects: { type: 'string' },
    peers: { type: 'string' },
    processes: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '1' },
    json: { type: 'string', default: resolve(import.meta.dir, '../../dist/bench.json') },
  },
})

const { quick } = values
if (!/^[1-9]$/.test(values.processes)) fail('--processes: from 1 to 9')
const mixedMinutes = Number(values.minutes)
if (!(mixedMinutes > 0)) fail('--minutes: more than 0')
// About 10,000 chunks per second: well measurable without a full core.
const BUSY = { streams: 200, paceMs: 20 }
const COST: CostShape = {
  processes: Number(values.processes),
  rounds: quick ? 3 : 4,
  jsonTurns: quick ? 1 : 4,
  round: {
    json1: { seconds: 1 },
    json32: { seconds: 1 },
    json64k: { seconds: 1 },
    streams: { ...BUSY, tokens: quick ? 75 : 300 },
  },
  streams1000: { streams: 1_000, paceMs: 150, tokens: quick ? 20 : 40 },
  warmUpS: quick ? 30 : 90,
  slice: {
    json1: { seconds: 1 },
    json32: { seconds: quick ? 1 : 2 },
    json64k: { seconds: 1 },
    streams: { ...BUSY, tokens: quick ? 50 : 75 },
  },
}
const COLD_RUNS = quick ? 3 : 9
const SOAK = quick
  ? { requests: 5_000, burst: 300, streams: 300, mixedMinutes, watchS: 10, slowS: 6 }
  : { requests: 60_000, burst: 1_500, streams: 1_000, mixedMinutes, watchS: 30, slowS: 20 }
// Long enough for a breaker to half-open.
const FAILOVER = { rounds: 3, seconds: quick ? 1 : 2 }
const DAY_TWO = quick
  ? { requests: 100_000, keys: 1_000, rounds: 2, seconds: 1, starts: 3 }
  : { requests: 1_000_000, keys: 10_000, rounds: 4, seconds: 3, starts: 7 }
const DASHBOARD = quick
  ? { requests: 100_000, keys: 100, visits: 3, rounds: 2, seconds: 1 }
  : { requests: 1_000_000, keys: 1_000, visits: 5, rounds: 6, seconds: 3 }
const LIMIT_MS = (30 + SUBJECTS.length * mixedMinutes) * 60_000

const PARTS = [...LOADS, 'cold', 'soak', 'failover', 'day-two', 'dashboard'] as const
type Part = (typeof PARTS)[number]
const GROUPS: Record<string, readonly Part[]> = { json: JSON_LOADS, streams: [...STREAM_LOADS, 'streams1000'] }

function chooseParts(): readonly Part[] {
  if (values.only === undefined) return PARTS
  const asked = values.only.split(',').flatMap((name): readonly string[] => GROUPS[name] ?? [name])
  return choose('part', asked, PARTS)
}

function chooseSubjects(): SubjectName[] {
  const usual = SUBJECTS.filter((name) => name !== 'before' || BEFORE)
  const asked = values.subjects === undefined ? usual : choose('subject', values.subjects.split(','), SUBJECTS)
  return asked.filter((name) => {
    const missing = whyMissing(name)
    if (missing !== null) console.error(`left out: ${missing}`)
    return missing === null
  })
}

function choosePeers(): Peer[] {
  if (values.peers === undefined) return []
  try {
    const peers = readPeers(values.peers)
    const names = [...SUBJECTS, ...peers.map(({ name }) => name)]
    const twice = names.find((name, at) => names.indexOf(name) !== at)
    return twice ? fail(`${values.peers}: two subjects are called ${twice}`) : peers
  } catch (error) {
    return fail(`--peers: ${messageOf(error)}`)
  }
}

/** Ends the benchmark on an unknown name. */
function choose<T extends string>(what: string, asked: readonly string[], known: readonly T[]): T[] {
  const unknown = asked.filter((name) => !known.some((one) => one === name))
  if (unknown.length > 0) fail(`unknown ${what}: ${unknown.join(', ')}; there are ${known.join(', ')}`)
  return known.filter((name) => asked.includes(name))
}

function fail(sentence: string): never {
  console.error(sentence)
  process.exit(1)
}

async function measure(
  names: readonly SubjectName[],
  peers: readonly Peer[],
  parts: readonly Part[],
  root: string,
): Promise<Report> {
  const { process: upstream, origin } = await startBenchUpstream(root)
  const builds = BUILDS.filter((build) => names.includes(build))
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
  const merge = (name: string, part: SubjectReport) => {
    report.subjects[name] = { ...report.subjects[name], ...part }
  }
  const loads = LOADS.filter((load) => parts.includes(load))
  const start = (name: string, folder: string) => {
    const peer = peers.find((one) => one.name === name)
    return peer ? startPeer(peer, folder, origin) : startSubject(name as SubjectName, folder, origin)
  }
  const all = [...names, ...peers.map(({ name }) => name)]
  if (loads.length > 0) await timed('requests and streams', () => measureCost(all, loads, root, start, COST, merge))
  if (parts.includes('cold'))
    await timed('cold start', async () => {
      console.error('cold start')
      for (const [name, coldStart] of await measureCold(builds, root, origin, COLD_RUNS)) merge(name, { coldStart })
    })
  if (parts.includes('soak'))
    await timed('soak', async () => {
      for (const [name, soak] of await measureSoak(names, root, origin, SOAK)) merge(name, { soak })
    })
  if (parts.includes('failover'))
    await timed('failover', async () => {
      for (const name of builds) merge(name, { failover: await measureFailover(name, root, origin, FAILOVER) })
    })
  if (parts.includes('day-two'))
    await timed('day two', async () => {
      report.dayTwo = await measureDayTwo(root, origin, DAY_TWO)
    })
  if (parts.includes('dashboard'))
    await timed('dashboard', async () => {
      report.dashboard = await measureDashboard(root, origin, DASHBOARD)
    })
  await upstream.stop()
  return report
}

const parts = chooseParts()
const needsWrk = parts.some(
  (part) => ['failover', 'day-two', 'dashboard'].includes(part) || JSON_LOADS.some((load) => load === part),
)
if (needsWrk && !Bun.which('wrk')) fail('wrk is not installed: apt-get install -y wrk')
if (parts.includes('dashboard') && !CHROMIUM) fail('Chromium is not installed: apt-get install -y chromium')
const root = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
guardChildren(LIMIT_MS)
process.on('exit', () => rmSync(root, { recursive: true, force: true }))
const report = await measure(chooseSubjects(), choosePeers(), parts, root)
console.log(toText(report))
mkdirSync(dirname(values.json), { recursive: true })
writeFileSync(values.json, `${JSON.stringify({ ...report, ratios: toRatios(report) }, null, 2)}\n`)
console.log(`\nas JSON in ${values.json}`)
process.exit(0)
