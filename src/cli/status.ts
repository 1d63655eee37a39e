/** `tollgate status`: the running server in two lines, and what needs attention, as on the dashboard. */
import type { Command } from 'commander'
import type { AttentionDocument } from '../documents/attention.ts'
import type { StatusDocument } from '../documents/server.ts'
import type { ShownUpstream } from '../documents/upstream.ts'
import { count } from '../domain/text.ts'
import { toAgo } from '../domain/time.ts'
import { isReady } from '../domain/upstream-state.ts'
import { answerOf, withAdmin } from './admin-client.ts'
import { CommandError } from './command-error.ts'
import { type Context, printJson, toExamples, toIndented, toPrintable } from './io.ts'

export function addStatus(command: Command, context: Context): void {
  command.addHelpText('after', toExamples('status', 'status --json')).action(() => status(context))
}

export async function status(io: Context): Promise<void> {
  const found = await withAdmin(io, { readonly: true }, async ({ api, found }) => {
    const { dataFolder } = io
    if (found.kind === 'silent') throw new CommandError('server_silent', `Can't reach the server: ${found.why}.`)
    if (found.kind === 'none')
      throw new CommandError('no_server', `No server is running. Start it: tollgate serve --data ${dataFolder}`)
    const status = await answerOf(api.status.get())
    return {
      status,
      attention: await answerOf(api.attention.get()),
      upstreams: (await answerOf(api.upstreams.get())).upstreams.filter(({ enabled }) => enabled),
    }
  })
  if (io.json) return printJson(io, { status: found.status, attention: found.attention })
  io.stdout(toText(found, io))
}

interface Shown {
  status: StatusDocument
  attention: AttentionDocument
  upstreams: readonly ShownUpstream[]
}

function toText({ status, attention: { findings }, upstreams }: Shown, io: Context): string {
  const { url, readiness, started_ms: startedMs, in_flight: inFlight, cluster } = status
  const server = `${url}: ${readiness.replace('_', ' ')}, started ${toAgo(startedMs, io.nowMs())}, ${count(inFlight, 'request')} in flight.`
  const node = cluster
    ? `Node ${toPrintable(cluster.name)} of ${count(cluster.living_nodes, 'living node')}: PostgreSQL ${cluster.reachable ? 'is reachable' : "can't be reached"}.${cluster.facts.limits_apart ? " The limits of all nodes can't be reached." : ''}\n`
    : ''
  const ready = `${node}${upstreams.filter(isReady).length} of ${count(upstreams.length, 'upstream')} ready.`
  if (findings.length === 0) return `${server}\n${ready}\nNothing needs attention.\n`
  const lines = findings.map(({ severity, message, action: { command } }) => {
    const text = toPrintable(`${message} To act: ${command}`)
    return `${io.paint.state(severity.padEnd(7))}  ${io.isTerminal(1) ? toIndented(text, 9).trimStart() : `${text}\n`}`
  })
  return `${server}\n${ready}\n\nNeeds attention:\n${lines.join('')}`
}
