import { type Check, ok, problem, toFew, warning } from '../documents/checks.ts'
import type { CertificateState, DiskState } from '../documents/server.ts'
import { count, toSizeText } from '../domain/text.ts'
import { DAY_MS, toAgo, toDay, toSpan } from '../domain/time.ts'
import { MIN_FREE_BYTES } from './disk.ts'
import { toLowLimit } from './open-files.ts'
import type { Status } from './protocol.ts'

type SaidStatus = Pick<
  Status,
  'readiness' | 'reasons' | 'lost' | 'in_flight' | 'files' | 'untrusted_proxy' | 'certificates'
>

/** Checks the server without its disk, which may not be measured yet, and without its backups. */
export function checkServer(status: SaidStatus, nowMs: number): Check[] {
  return [
    checkReadiness(status),
    checkFiles(status),
    ...checkProxy(status),
    ...status.certificates.map((certificate) => checkCertificate(certificate, nowMs)),
  ]
}

function checkReadiness({ readiness, reasons, lost, in_flight: inFlight }: SaidStatus): Check {
  const name = 'readiness'
  if (readiness === 'ok') return ok(name, `Accepting requests; ${inFlight} in progress.`)
  if (readiness === 'degraded') return warning(name, `Accepting requests with problems: ${reasons.join(' ')}`)
  if (readiness === 'starting') return warning(name, 'Starting; not accepting requests yet.')
  if (readiness === 'draining')
    return warning(name, `Shutting down, with ${count(inFlight, 'request')} in progress; new ones are rejected.`)
  const why =
    lost === null
      ? `${reasons.join(' ')} Free disk space, and look for a process that keeps the database locked.`
      : `Its ${lost} was removed, replaced, or emptied while it was running. Stop it, put the data folder back or restore a backup, and start it again.`
  return problem(name, `Rejecting all requests. ${why}`)
}

function checkFiles({ files }: SaidStatus): Check {
  const low = toLowLimit(files)
  if (low !== null) return warning('files', low)
  return ok('files', files.limit === null ? 'Open file limit: unknown.' : `Open file limit: ${files.limit}.`)
}

function checkProxy({ untrusted_proxy: proxy }: SaidStatus): Check[] {
  if (proxy === null) return []
  const message = `${proxy} sends X-Forwarded-For, which is ignored. If that is your reverse proxy, start with --trusted-proxy ${proxy}. Otherwise all its clients count as one address, and anyone can lock sign-in for all.`
  return [warning('proxy', message)]
}

const MAX_NEAR_END_MS = 14 * DAY_MS
const NEAR_END_SHARE = 1 / 6

/** True in the last two weeks, or in the last sixth of a lifetime of less than three months. */
export const isNearEnd = ({ valid_from_ms: fromMs, expires_ms: endMs }: CertificateState, nowMs: number): boolean =>
  nowMs >= endMs - Math.min(MAX_NEAR_END_MS, (endMs - fromMs) * NEAR_END_SHARE)

function checkCertificate(certificate: CertificateState, nowMs: number): Check {
  const { names, valid_from_ms: fromMs, expires_ms: endMs, problem: why } = certificate
  const name = 'certificate'
  const whose = `The certificate of ${names.length === 0 ? 'no name' : toFew(names)}`
  const end = toDay(endMs)
  if (endMs <= nowMs) return problem(name, `${whose} expired on ${end}, so clients can't connect. ${why ?? RENEW}`)
  if (fromMs > nowMs)
    return problem(name, `${whose} is valid only from ${toDay(fromMs)}. Check this machine's clock, or replace it.`)
  if (why !== null) return warning(name, `${why} The certificate in use expires on ${end}.`)
  if (isNearEnd(certificate, nowMs)) return warning(name, `${whose} expires on ${end}. ${RENEW}`)
  return ok(name, `${whose} is valid until ${end}.`)
}

const RENEW = 'Renew it and replace its files; the server reads them again.'

export function checkDisk({ state, free_bytes: free, budget_bytes: budget, used_bytes: used }: DiskState): Check {
  const ofBudget = budget === null ? '' : ` of ${toSizeText(budget)} (--disk-budget)`
  const message = `${toSizeText(free)} free on the disk of the data folder, which uses ${toSizeText(used)}${ofBudget}`
  if (free < MIN_FREE_BYTES)
    return problem(
      'disk',
      `${message}: too little for the journal. Free disk space, or requests will soon be rejected.`,
    )
  if (state === 'ok') return ok('disk', `${message}.`)
  if (budget !== null && used > budget)
    return warning(
      'disk',
      `The data folder uses ${toSizeText(used)}, more than --disk-budget ${toSizeText(budget)}; ${toSizeText(free)} free on its disk. Delete files in backups/, raise --disk-budget, or lower the retention (serve --retention 30d).`,
    )
  const raise = budget === null ? '' : 'raise --disk-budget, '
  return warning(
    'disk',
    `${message}. Free disk space soon, ${raise}or lower the retention (serve --retention 30d). You can also delete files in backups/.`,
  )
}

/**
 * Compares the newest scheduled backup with the server's schedule.
 * @param said null if no server runs.
 */
export function checkBackups(
  said: Pick<Status, 'backups' | 'started_ms'> | null,
  newestMs: number | null,
  nowMs: number,
): Check {
  const name = 'backup'
  const age = newestMs === null ? 'No backup yet' : `Newest: ${toAgo(newestMs, nowMs)}`
  const { every_ms: everyMs = 0, failed = null } = said?.backups ?? {}
  if (failed !== null) return warning(name, `The last scheduled backup failed: ${failed} ${age}.`)
  const isLate = everyMs > 0 && nowMs - (newestMs ?? said?.started_ms ?? nowMs) > 2 * everyMs
  if (isLate)
    return warning(name, `${age}, although one is due every ${toSpan(everyMs)}. See the server log for the reason.`)
  if (everyMs > 0 || newestMs !== null) return ok(name, `${age}, in backups/ of the data folder.`)
  return ok(name, 'No backups scheduled. Enable: serve --backup-every 24h. Manual: tollgate backup FILE')
}
