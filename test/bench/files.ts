/**
 * `bun test/bench/files.ts`: how many source files one request runs through, and which: what a reader has to know to
 * follow it. A gateway in this process, its key with every limit and in a team with a budget, its model with several
 * routes, answers one request to get start-up and what is loaded on first use out of the way. Then the engine's precise
 * coverage tells which functions run from the start of one further request until its answer is read, with its row settled
 * in the journal. Those that run without a request too, on timers, are taken off, and so are the batches that carry rows
 * from the journal into the database, for whoever they are, a fifth of a second later.
 *
 * A file counts when one of its functions ran, or ran on. What only holds types, constants or tables was read at start-up
 * and does not count; neither do threads other than the main one. `--plain`: one route, and a key without limits or team.
 * `--functions` says how many ran in each file.
 */
import { Session } from 'node:inspector/promises'
import { parseArgs } from 'node:util'

const SOURCE = new URL('../../src/', import.meta.url).href
const KINDS = ['streamed', 'whole'] as const
/** Longer than every timer of a server at rest. */
const REST_MS = 1_500

const flag = { type: 'boolean', default: false } as const
const { values } = parseArgs({ options: { plain: flag, functions: flag } })
const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
// Only what is compiled from here on is counted, so nothing of src may have been loaded before.
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

/** Returns the functions that ran since it was last called, as `file#offset`: the engine then counts anew. */
async function takeFunctions(): Promise<Set<string>> {
  const { result } = await session.post('Profiler.takePreciseCoverage')
  const found = new Set<string>()
  // The first one is the module itself. A count within a function suffices: an asynchronous one that began earlier
  // runs on without being called again.
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
