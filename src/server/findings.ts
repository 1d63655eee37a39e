/**
 * What is found of a server by what it says of itself: whether it takes requests, its files, its disk, its backups. The status of the admin
 * API has them, and so does `doctor`.
 */
import { type Check, ok, problem, warning } from '../documents/checks.ts'
import type { DiskState } from '../documents/server.ts'
import { toSizeText } from '../domain/text.ts'
import { toAgo, toSpan } from '../domain/time.ts'
import { MIN_FREE_BYTES } from './disk.ts'
import { toLowLimit } from './open-files.ts'
import type { Status } from './protocol.ts'

type SaidStatus = Pick<Status, 'readiness' | 'reasons' | 'lost' | 'in_flight' | 'files' | 'untrusted_proxy'>

/** All but its disk, which may not be measured yet, and its backups. */
export function checkServer(status: SaidStatus): Check[] {
  return [checkReadiness(status), checkFiles(status), ...checkProxy(status)]
}

function checkReadiness({ readiness, reasons, lost, in_flight: inFlight }: SaidStatus): Check {
  const name = 'readiness'
  if (readiness === 'ok') return ok(name, `It takes requests; ${inFlight} in progress.`)
  if (readiness === 'degraded') return warning(name, `It takes requests, but: ${reasons.join(' ')}`)
  if (readiness === 'starting') return warning(name, 'It is starting and takes no requests yet.')
  if (readiness === 'draining')
    return warning(name, `It is stopping: ${inFlight} requests are in progress, and it takes no new ones.`)
  const why =
    lost === null
      ? `${reasons.join(' ')} Make room on the disk, and look for a process that keeps the database locked.`
      : `Its ${lost} was removed, replaced or emptied while it runs. Stop it, put the data folder back as it was or restore a backup, and start it again.`
  return problem(name, `It refuses every request. ${why}`)
}

function checkFiles({ files }: SaidStatus): Check {
  const low = toLowLimit(files)
  if (low !== null) return warning('files', low)
  return ok('files', files.limit === null ? 'The limit is not known.' : `The server may open ${files.limit}.`)
}

function checkProxy({ untrusted_proxy: proxy }: SaidStatus): Check[] {
  if (proxy === null) return []
  const message = `${proxy} sends X-Forwarded-For, which is ignored. If that is your reverse proxy, start with --trusted-proxy ${proxy}: otherwise all its clients count as one address, and anyone can close sign-in for all.`
  return [warning('proxy', message)]
}

/** How full the disk is. */
export function checkDisk({ state, free_bytes: free, budget_bytes: budget, used_bytes: used }: DiskState): Check {
  const ofBudget = budget === null ? '' : ` of the ${toSizeText(budget)} of --disk-budget`
  const message = `${toSizeText(free)} are free on the disk of the data folder, which takes ${toSizeText(used)}${ofBudget}`
  if (free < MIN_FREE_BYTES)
    return problem(
      'disk',
      `${message}: too little for the journal. Make room, or requests will be refused before long.`,
    )
  if (state === 'ok') return ok('disk', `${message}.`)
  const raise = budget === null ? '' : 'raise --disk-budget, '
  return warning(
    'disk',
    `${message}. Make room soon, ${raise}or keep requests for a shorter time (serve --retention 30d); what is in backups/ may go, too.`,
  )
}

/**
 * How old the newest scheduled backup is, against what the server is set to.
 * @param said null where no server says it.
 */
export function checkBackups(
  said: Pick<Status, 'backups' | 'started_ms'> | null,
  newestMs: number | null,
  nowMs: number,
): Check {
  const name = 'backup'
  const age = newestMs === null ? 'There is none yet' : `The newest is of ${toAgo(newestMs, nowMs)}`
  const { every_ms: everyMs = 0, failed = null } = said?.backups ?? {}
  if (failed !== null) return warning(name, `The last scheduled backup was not well: ${failed} ${age}.`)
  const isLate = everyMs > 0 && nowMs - (newestMs ?? said?.started_ms ?? nowMs) > 2 * everyMs
  if (isLate)
    return warning(name, `${age}, although one is due every ${toSpan(everyMs)}. The log of the server says why.`)
  if (everyMs > 0 || newestMs !== null) return ok(name, `${age}, in backups/ of the data folder.`)
  return ok(name, 'None is scheduled: serve --backup-every 24h does that, and `tollgate backup FILE` writes one.')
}
