/**
 * Open files: how many this process may have, and what is done when they run out. Each connection takes one, of clients as of
 * upstreams, and without any left nobody new is answered, while Bun's loop spins on those that wait. Bun itself raises the
 * soft limit to the hard one when it starts; the rest of that limit is the operator's.
 */
import type { Log } from '../log.ts'
import { nextFreeFile, noteShortage } from '../upstreams/shortage.ts'
import type { FileLimit } from './protocol.ts'
import { type CloseSilent, createCloseSilent } from './silent-connections.ts'

/** For the database, the journal, the log, threads, and connections between two requests. */
const SPARE_FILES = 64

/** Reads the limit of this process, which Bun has raised as far as it may. */
export function readMaxFiles(): number | null {
  try {
    const report: { userLimits?: { open_files?: { soft?: unknown } } } = process.report.getReport()
    const soft = report.userLimits?.open_files?.soft
    return typeof soft === 'number' && soft > 0 ? soft : null
  } catch {
    return null
  }
}

/** Bounds the setting `--max-in-flight` by what the limit has room for. */
export function toFileLimit(limit: number | null, wanted: number): FileLimit {
  const room = limit === null ? wanted : Math.max(1, Math.floor((limit - SPARE_FILES) / 2))
  return { limit, max_in_flight: Math.min(room, wanted), wanted_in_flight: wanted }
}

const RAISE = 'Raise the limit (LimitNOFILE= of a systemd unit, --ulimit nofile= of a container, ulimit -n)'

/** What an operator is told where the limit is too low for `--max-in-flight`; null where it is not. */
export function toLowLimit({ limit, max_in_flight: taken, wanted_in_flight: wanted }: FileLimit): string | null {
  if (limit === null || limit >= 2 * wanted) return null
  return `This process may open ${limit} files, and ${wanted} requests at once (--max-in-flight) would take twice as many: ${taken} at once are taken. ${RAISE}, or lower --max-in-flight.`
}

/** A moment's shortage is over before it turns a request away. */
const LOOK_MS = 50
const LOG_MS = 60_000

export interface FileWatchDeps {
  /** Most files that this process may have open. */
  limit: number
  /** The one that clients come in by. */
  server: { port?: number | undefined; closeIdleConnections(): void }
  log: Log
}

/**
 * Looks every so often how many files are left. Once few are, connections of clients that wait for nothing are closed, those
 * that have asked nothing and those between two requests, so that others are answered. Stopped by what is returned.
 */
export function watchFiles({ limit, server, log }: FileWatchDeps): () => void {
  const enough = limit - Math.min(512, Math.max(16, Math.floor(limit / 8)))
  let closeSilent: CloseSilent | null = null
  let isLoading = false
  let loggedMs = Number.NEGATIVE_INFINITY

  const look = async () => {
    const file = nextFreeFile()
    if (isLoading || (file !== null && file < enough)) return
    noteShortage()
    server.closeIdleConnections()
    isLoading = true
    closeSilent ??= await createCloseSilent(limit)
    isLoading = false
    closeSilent(server.port ?? 0)
    const nowMs = performance.now()
    if (nowMs - loggedMs < LOG_MS) return
    loggedMs = nowMs
    const message = `open files run out: connections that ask nothing are closed. ${RAISE}, or find out who opens so many`
    log.warn('files_short', message, { limit })
  }
  const timer = setInterval(look, LOOK_MS)
  return () => clearInterval(timer)
}
