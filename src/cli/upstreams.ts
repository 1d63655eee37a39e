/**
 * `tollgate upstreams list | test`. What the running server knows comes over its control socket; where none runs, the
 * command says so and goes by the database and its own environment.
 */
import type { Command } from 'commander'
import type { Status, TestResult } from '../server/protocol.ts'
import { CommandError } from './command-error.ts'
import { type Io, printJson, sharedOptions, toDataFolder, withStore } from './io.ts'
import type { ServerLookup } from './live.ts'
import { toPrintable, toTable } from './text.ts'
import { hasFailed, toTestMessage, toUpstreamCells, UPSTREAM_HEADINGS } from './upstream-messages.ts'
import type { Declared } from './upstream-rows.ts'

/** Adds the group to the program. */
export function addUpstreamsCommands(program: Command, io: Io): void {
  const upstreams = program.command('upstreams').description('show and test the places that answer')
  upstreams
    .command('list')
    .description('list all upstreams: state, breakers, deadlines, last error')
    .action((_options: unknown, command: Command) => list(command, io))
  upstreams
    .command('test')
    .description(
      'ask upstreams, by what costs nothing, whether they could answer now; exit 1 if one could not. A running server asks, and goes by what it finds',
    )
    .argument('[id...]', 'the ones to ask; else all that are enabled')
    .action((ids: string[], _options: unknown, command: Command) => test(ids, command, io))
}

async function list(command: Command, io: Io): Promise<void> {
  const { declared, found } = await gather(command, io)
  const { toRow } = await import('./upstream-rows.ts')
  const status = statusOf(found)
  const rows = declared.map((each) => toRow(each, status))
  if (sharedOptions(command).json) return printJson(io, { upstreams: rows, server: toServer(status) })
  noteServer(found, io, 'This is what the database and this environment say.')
  if (rows.length === 0) return io.stderr('There are no upstreams yet. Declare them in a catalogue: catalog.yaml\n')
  const nowMs = io.nowMs()
  io.stdout(
    toTable(
      UPSTREAM_HEADINGS,
      rows.map((row) => toUpstreamCells(row, nowMs)),
    ),
  )
}

async function test(ids: readonly string[], command: Command, io: Io): Promise<void> {
  const { declared, found, dataFolder } = await gather(command, io)
  const chosen = choose(ids, declared)
  const status = statusOf(found)
  const { json } = sharedOptions(command)
  if (!json) noteServer(found, io, 'Asking from here, with the credentials of this environment.')
  const results = status === null ? await testFromHere(chosen) : await testByServer(chosen, dataFolder)
  if (json) printJson(io, { upstreams: results, server: toServer(status) })
  else if (results.length === 0) io.stderr('There is no upstream to ask.\n')
  else io.stdout(toTable(['ID', 'STATE', 'MS', 'WHAT CAME'], results.map(toCells)))
  const failed = results.filter(hasFailed)
  if (failed.length > 0)
    throw new CommandError('upstreams_failed', `${failed.length} of ${results.length} could not answer.`)
}

/** What both commands begin with: what the database declares, and the server, if there is one. */
async function gather(
  command: Command,
  io: Io,
): Promise<{ declared: Declared[]; found: ServerLookup; dataFolder: string }> {
  const { findServer } = await import('./live.ts')
  const { toDeclared } = await import('./upstream-rows.ts')
  const dataFolder = toDataFolder(command, io)
  const { upstreams } = await withStore(command, io, { readonly: true }, (store) => store.readCatalog())
  return { declared: toDeclared(upstreams, io.environment), found: await findServer(dataFolder), dataFolder }
}

const statusOf = (found: ServerLookup) => (found.kind === 'server' ? found.status : null)

/** What the documents say of the server: all but its upstreams, which have a list of their own. */
function toServer(status: Status | null): Omit<Status, 'upstreams'> | null {
  if (!status) return null
  const { upstreams: _, ...server } = status
  return server
}

function noteServer(found: ServerLookup, io: Io, instead: string): void {
  if (found.kind === 'none') io.stderr(`No server runs on this data folder. ${instead}\n`)
  if (found.kind === 'silent') io.stderr(`The server cannot be asked: ${found.why}. ${instead}\n`)
}

/** Those of these ids, or all that are enabled. Refuses an id that cannot be asked. */
function choose(ids: readonly string[], declared: readonly Declared[]): Declared[] {
  const enabled = declared.filter((each) => each.enabled)
  if (ids.length === 0) return enabled
  return [...new Set(ids)].map((id) => {
    const found = declared.find(({ upstream }) => upstream.id === id)
    if (found?.enabled) return found
    if (found)
      throw new CommandError('upstream_disabled', `The upstream ${toPrintable(id)} is disabled: nothing is sent to it.`)
    const names = declared.map(({ upstream }) => upstream.id).join(', ')
    throw new CommandError(
      'unknown_upstream',
      `There is no upstream ${toPrintable(id)}. There are: ${names || 'none'}.`,
    )
  })
}

async function testByServer(chosen: readonly Declared[], dataFolder: string): Promise<TestResult[]> {
  const { testThroughServer } = await import('./live.ts')
  return Promise.all(chosen.map(({ upstream }) => testThroughServer(dataFolder, upstream.id)))
}

async function testFromHere(chosen: readonly Declared[]): Promise<TestResult[]> {
  const { createAllBackends } = await import('../server/backends.ts')
  const { testUpstream } = await import('../server/test-upstream.ts')
  const backendFor = createAllBackends()
  const monotonicMs = () => performance.now()
  return Promise.all(
    chosen.map(({ upstream, variable }) => {
      // It may well be set where the server runs.
      const notReady = upstream.notReady && `the variable ${variable} is not set here`
      return testUpstream({ ...upstream, notReady }, { backend: backendFor({ upstream }), monotonicMs })
    }),
  )
}

const toCells = (result: TestResult) => [
  toPrintable(result.id),
  result.state.replace('_', ' '),
  result.ms === null ? '-' : String(result.ms),
  toTestMessage(result),
]
