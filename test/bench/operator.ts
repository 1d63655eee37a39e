/** Cost of operator work: reports on a long history, and requests during a report, a backup, or retention. */
import { Database } from 'bun:sqlite'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { toFirstId } from '../../src/domain/id.ts'
import { type JsonResult, loadJson } from './json-load.ts'
import { CONNECTIONS, type PastFolder, serve } from './past.ts'
import type { Subject } from './subjects.ts'
import { median, medians } from './table.ts'
import { BINARY } from './tollgate.ts'

export interface WorkResult {
  /** `nothing`, a repeated command, or the server's retention. */
  work: string
  runs: number
  /** Per run; null if nothing ran. */
  commandMs: number | null
  load: Record<keyof JsonResult, number>
}

export interface OperatorResult {
  /** Without other load, ms. */
  reports: { command: string; ms: number }[]
  work: WorkResult[]
  /** Requests deleted by retention during the measurement. */
  taken: number
}

export interface OperatorShape {
  rounds: number
  seconds: number
}

/** Commands that only read. */
const REPORTS: readonly (readonly string[])[] = [
  ...['key', 'team', 'model', 'upstream', 'endpoint', 'user', 'day', 'hour', 'key,model', 'model,day'].map((by) => [
    'usage',
    '--since',
    '31d',
    '--by',
    by,
  ]),
  ['requests', 'list', '--since', '31d', '--errors'],
  ['keys', 'list'],
  ['ledger', 'verify'],
]

/** Retention starts a minute after the server. */
const BEGINS_MS = 120_000

interface Work {
  work: string
  server: Subject
  run: (() => Promise<number>) | null
}

export async function measureOperator(
  long: PastFolder,
  upstream: string,
  shape: OperatorShape,
): Promise<OperatorResult> {
  const { folder, data } = long
  const kept: PastFolder = { ...long, folder: `${folder}-kept` }
  cpSync(folder, kept.folder, { recursive: true })
  const server = await serve(long, upstream)
  const reports = await measureReports(data)
  await loadJson(server, folder, CONNECTIONS, 4 * shape.seconds)
  const { keeping, left } = await startKeeping(kept, upstream, shape)
  const backup = join(folder, 'copy.db')
  const usage = ['usage', '--since', '31d', '--by', 'key,model', '--json']
  const before = left()
  const work = await measureWorks(
    [
      { work: 'nothing', server, run: null },
      { work: 'usage --by key,model', server, run: () => run(usage, data) },
      { work: 'backup', server, run: () => run(['backup', backup, '--force', '--json'], data) },
      { work: 'retention', server: keeping, run: null },
    ],
    folder,
    shape,
  )
  const taken = before - left()
  await Promise.all([server.process.drain(), keeping.process.drain()])
  rmSync(backup, { force: true })
  return { reports, work, taken }
}

/** Keeps half of its history; resolves once deleting has begun. */
async function startKeeping(kept: PastFolder, upstream: string, shape: OperatorShape) {
  const left = () => countRequests(kept.folder)
  const before = left()
  const keeping = await serve(kept, upstream, ['--retention', '15d'])
  await loadJson(keeping, kept.folder, CONNECTIONS, 4 * shape.seconds)
  console.error('day two: waiting for retention to begin')
  for (const untilMs = performance.now() + BEGINS_MS; left() === before; await Bun.sleep(200))
    if (performance.now() > untilMs) throw new Error('retention did not begin')
  return { keeping, left }
}

/** Excludes requests made since the history was written. */
const SINCE = toFirstId(Date.now() - 20 * 24 * 3_600_000)

function countRequests(folder: string): number {
  const database = new Database(join(folder, 'data', 'tollgate.db'), { readonly: true })
  try {
    const count = database.query<{ n: number }, [string]>('SELECT COUNT(*) AS n FROM requests WHERE id < ?')
    return count.get(SINCE)?.n ?? 0
  } finally {
    database.close()
  }
}

async function measureReports(data: string): Promise<OperatorResult['reports']> {
  const reports: OperatorResult['reports'] = []
  for (const report of REPORTS) {
    console.error(`day two: ${report.join(' ')}`)
    const times: number[] = []
    for (let i = 0; i < 3; i++) times.push(await run([...report, '--json'], data))
    reports.push({ command: report.join(' '), ms: median(times) })
  }
  return reports
}

async function measureWorks(works: readonly Work[], folder: string, shape: OperatorShape): Promise<WorkResult[]> {
  const all = works.map((work) => ({ ...work, loads: [] as JsonResult[], ms: [] as number[] }))
  for (let round = 0; round < shape.rounds; round++)
    for (const { work, server, run, loads, ms } of all) {
      console.error(`day two: requests beside ${work}`)
      let isOver = false
      const running = run && repeat(run, () => isOver)
      loads.push(await loadJson(server, folder, CONNECTIONS, shape.seconds))
      isOver = true
      ms.push(...((await running) ?? []))
    }
  return all.map(({ work, loads, ms }) => ({
    work,
    runs: ms.length,
    commandMs: ms.length === 0 ? null : median(ms),
    load: medians(loads),
  }))
}

async function repeat(work: () => Promise<number>, isOver: () => boolean): Promise<number[]> {
  const times: number[] = []
  while (!isOver()) times.push(await work())
  return times
}

/** Returns ms; throws the output on failure. */
async function run(command: readonly string[], data: string): Promise<number> {
  const began = performance.now()
  const child = Bun.spawn([BINARY, ...command, '--data', data], { stdout: 'ignore', stderr: 'pipe' })
  const said = await child.stderr.text()
  if ((await child.exited) !== 0) throw new Error(`${command.join(' ')} failed: ${said}`)
  return performance.now() - began
}
