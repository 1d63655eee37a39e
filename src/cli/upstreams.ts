/**
 * `tollgate upstreams list | test`. What the running server knows comes over its control socket; where none runs, the
 * command says so and goes by the database and its own environment.
 */
import { type StoredUpstream, toDeclared, toRow } from '../documents/upstream.ts'
import { createAllBackends, testUpstream } from '../server/backends.ts'
import type { Status, TestResult } from '../server/protocol.ts'
import { CommandError } from './command-error.ts'
import { type Context, printJson, toDescribedTable, toPrintable } from './io.ts'
import { findServer, noteServer, testThroughServer } from './live.ts'
import { readUpstreams } from './read-upstreams.ts'
import { toAdvice } from './upstream-advice.ts'
import { toUpstreamTable } from './upstream-text.ts'

export async function list(io: Context): Promise<void> {
  const { declared, found, status } = await gather(io)
  const rows = declared.map((each) => toRow(each, status?.upstreams ?? null))
  if (io.json) return printJson(io, { upstreams: rows, server: toServer(status) })
  noteServer(found, io, 'This is what the database and this environment say.')
  if (rows.length === 0)
    return io.stderr('There are no upstreams yet. Add one: tollgate upstreams add, upstreams discover\n')
  io.stdout(toUpstreamTable(rows, io.nowMs(), io.paint))
}

export async function test(ids: readonly string[], io: Context): Promise<void> {
  const { declared, found, status } = await gather(io)
  const chosen = choose(ids, declared)
  if (!io.json) noteServer(found, io, 'Asking from here, with the credentials of this environment.')
  const results = await Promise.all(
    status === null
      ? testFromHere(chosen)
      : chosen.map(({ upstream }) => testThroughServer(io.dataFolder, upstream.id)),
  )
  if (io.json) printJson(io, { upstreams: results, server: toServer(status) })
  else if (results.length === 0) io.stderr('There is no upstream to ask.\n')
  else {
    const notes = results.map(({ reason }) => [toPrintable((reason && toAdvice(reason)) ?? '')])
    io.stdout(toDescribedTable(['ID', 'STATE', 'MS', 'WHAT CAME'], results.map(toCells), notes, io.paint))
  }
  const failed = results.filter((result) => !answers(result))
  for (const { id, reason } of results.filter((result) => answers(result) && result.reason !== null))
    io.stderr(`warning: ${toPrintable(`${id} answers, but not with each of its credentials: ${reason}`)}\n`)
  if (failed.length > 0)
    throw new CommandError('upstreams_failed', `${failed.length} of ${results.length} could not answer.`)
}

/** What both commands begin with: what the database declares, and the server, if there is one. */
async function gather(io: Context) {
  const { rows, opened } = await readUpstreams(io)
  const found = await findServer(io.dataFolder)
  const status = found.kind === 'server' ? found.status : null
  return { declared: toDeclared(rows.upstreams, io.environment, opened), found, status }
}

/** What the documents say of the server: all but its upstreams, which have a list of their own. */
function toServer(status: Status | null): Omit<Status, 'upstreams'> | null {
  if (!status) return null
  const { upstreams: _, ...server } = status
  return server
}

/** Those of these ids, or all that are enabled. Refuses an id that cannot be asked. */
function choose(ids: readonly string[], declared: readonly StoredUpstream[]): StoredUpstream[] {
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

function testFromHere(chosen: readonly StoredUpstream[]): Promise<TestResult>[] {
  const backends = createAllBackends()
  const monotonicMs = () => performance.now()
  return chosen.map(({ upstream }) => testUpstream(upstream, { backend: backends[upstream.dialect], monotonicMs }))
}

const answers = ({ state }: TestResult) => state === 'ready' || state === 'unknown'

const toCells = (result: TestResult) => [
  toPrintable(result.id),
  result.state.replace('_', ' '),
  result.ms === null ? '-' : String(result.ms),
  toMessage(result),
]

function toMessage({ state, reason }: TestResult): string {
  if (state === 'ready') return 'answers'
  if (state === 'unknown') return 'answers, but not to a request that costs nothing'
  return toPrintable(reason ?? state)
}
