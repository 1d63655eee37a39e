/** What `doctor` learns from the running server, or from there being none. Pure. */
import type { Status } from '../server/protocol.ts'
import { type Check, ok, problem, warning } from './doctor-check.ts'
import type { ServerLookup } from './live.ts'
import { toAgo } from './upstream-messages.ts'

/** Looks at the server itself. `own` is the version of this binary. */
export function checkServer(found: ServerLookup, own: string, nowMs: number): Check[] {
  if (found.kind === 'none')
    return [warning('server', 'No server runs on this data folder. Start it with: tollgate serve')]
  if (found.kind === 'silent')
    return [
      found.holdsLock
        ? ok('server', 'A server holds serve.lock.')
        : warning('server', 'This user may not see whether a server runs.'),
      problem('control_socket', `The server cannot be asked how it is: ${found.why}.`),
    ]
  const { status } = found
  return [
    ok('server', `Process ${status.pid} serves ${status.url}, started ${toAgo(status.started_ms, nowMs)}.`),
    ok('control_socket', 'It answers.'),
    status.version === own
      ? ok('version', `${own}, as this program.`)
      : warning(
          'version',
          `The server is version ${status.version} and this program is ${own}. Restart the server to have one of them.`,
        ),
    checkReadiness(status),
  ]
}

function checkReadiness(status: Status): Check {
  const { readiness, in_flight: inFlight } = status
  const name = 'readiness'
  switch (readiness) {
    case 'ok':
      return ok(name, `It takes requests; ${inFlight} under way.`)
    case 'degraded':
      return warning(name, `It takes requests, but ${toDefect(status)}`)
    case 'draining':
      return warning(name, `It is stopping: ${inFlight} requests are under way, and it takes no new ones.`)
    case 'starting':
      return warning(name, 'It is starting and takes no requests yet.')
    default:
      return problem(
        name,
        'It refuses every request, since the journal has no room for ledger rows. Make room on the disk, and look for a process that keeps the database locked.',
      )
  }
}

function toDefect({ ledger, upstreams }: Status): string {
  if (ledger === 'behind')
    return 'the database takes no rows: they wait in the journal. Look for a process that keeps it locked, or a full disk.'
  if (upstreams.some(({ state }) => state === 'down' || state === 'refused')) return 'not all upstreams are up.'
  return 'cannot read changes of the configuration. Its log says why.'
}
