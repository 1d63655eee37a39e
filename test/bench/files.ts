/**
 * `bun test/bench/files.ts`: source files that one request runs through. A first request covers start-up; then precise
 * coverage of one more, until its row is in the journal. Timers and the later database batch are excluded, as are files
 * with only types, constants or tables, and other threads. `--plain`: one route, and a key without limits or team.
 * `--functions`: functions per file.
 */
import { Session } from 'node:inspector/promises'
import { parseArgs } from 'node:util'

const SOURCE = new URL('../../src/', import.meta.url).href
const KINDS = ['streamed', 'whole'] as const
/** Longer than every timer of an idle server. */
const REST_MS = 1_500

const flag = { type: 'boolean', default: false } as const
const { values } = parseArgs({ options: { plain: flag, functions: flag } })
const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
// Only code compiled from here on is counted, so src must not be loaded yet.
const { startCountedGateway } = await import('./files-gateway.ts')
const gateway = await startCountedGateway(values)
for (const kind of KINDS) {
  await gateway.ask(kind)
  await takeFunctions()
  await Bun.sleep(REST_MS)
  const atRest = await takeFunctions()
  await gateway.ask(kind)
  print(kind, (await takeFunctions()).difference(atRest))
}
await gateway.stop()
process.exit(0)

/** Functions run since the last call, as `file#offset`. */
async function takeFunctions(): Promise<Set<string>> {
  const { result } = await session.post('Profiler.takePreciseCoverage')
  const found = new Set<string>()
  // The first is the module. A count within a function suffices: an async one continues without being called again.
  for (const { url, functions } of result.filter((script) => script.url.startsWith(SOURCE)))
    for (const { ranges } of functions.slice(1))
      if (ranges.some(({ count }) => count > 0)) found.add(`${url.slice(SOURCE.length)}#${ranges[0]?.startOffset ?? 0}`)
  return found
}

function print(kind: string, ran: ReadonlySet<string>): void {
  const files = Map.groupBy(ran, (name) => name.slice(0, name.lastIndexOf('#')))
  console.log(`\n${kind}: ${files.size} files, ${ran.size} functions`)
  for (const file of [...files.keys()].sort())
    console.log(`  ${file}${values.functions ? `  ${files.get(file)?.length}` : ''}`)
}
