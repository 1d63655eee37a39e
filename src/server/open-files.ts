/**
 * Handles a lack of file descriptors. Otherwise new clients would get no response while Bun's event loop spins on waiting
 * ones. Bun raises the soft limit to the hard one at start.
 */

import type { Listener } from '../http/instance.ts'
import type { Log } from '../log.ts'
import { nextFreeFile, noteShortage } from '../upstreams/shortage.ts'
import { loadLibc } from './libc.ts'
import type { FileLimit } from './protocol.ts'

/** For the database, the journal, the log, threads, and idle connections. */
const SPARE_FILES = 64

/** After Bun has raised it. */
export function readMaxFiles(): number | null {
  try {
    const report: { userLimits?: { open_files?: { soft?: unknown } } } = process.report.getReport()
    const soft = report.userLimits?.open_files?.soft
    return typeof soft === 'number' && soft > 0 ? soft : null
  } catch {
    return null
  }
}

/** @param processes number of processes that share `wanted`. */
export function toFileLimit(limit: number | null, wanted: number, processes = 1): FileLimit {
  const room = limit === null ? wanted : processes * Math.max(1, Math.floor((limit - SPARE_FILES) / 2))
  return {
    ...{ limit, max_in_flight: Math.min(room, wanted), wanted_in_flight: wanted },
    ...(processes > 1 && { processes }),
  }
}

const RAISE = 'Raise the limit (LimitNOFILE= of a systemd unit, --ulimit nofile= of a container, ulimit -n)'

export function toLowLimit(files: FileLimit): string | null {
  const { limit, processes = 1, max_in_flight: taken, wanted_in_flight: wanted } = files
  if (limit === null || processes * limit >= 2 * wanted) return null
  const each = processes === 1 ? '' : ` for each of ${processes} processes`
  return `The file descriptor limit is ${limit}${each}, but ${wanted} concurrent requests (--max-in-flight) need twice as many, so only ${taken} are accepted. ${RAISE}, or lower --max-in-flight.`
}

/** Minimum pause between checks: shorter than clients need to use up the remaining files. */
const MIN_LOOK_MS = 50
const MAX_LOOK_MS = 1_000
const MAX_OPENED_PER_MS = 20
const LOG_MS = 60_000

interface FileWatchDeps {
  limit: number
  app: Listener
  log: Log
}

/**
 * If few files are left, closes client connections that are idle or sent no request yet. Returns a function that stops.
 */
export function watchFiles({ limit, app, log }: FileWatchDeps): () => void {
  const enough = limit - Math.min(512, Math.max(16, Math.floor(limit / 8)))
  let closeSilent: CloseSilent | null = null
  let isLoading = false
  let loggedMs = Number.NEGATIVE_INFINITY

  const look = async () => {
    const file = nextFreeFile()
    const left = enough - (file ?? limit)
    timer = setTimeout(look, Math.min(MAX_LOOK_MS, Math.max(MIN_LOOK_MS, left / MAX_OPENED_PER_MS)))
    if (isLoading || left > 0) return
    noteShortage()
    app.server?.closeIdleConnections()
    isLoading = true
    closeSilent ??= await createCloseSilent(limit)
    isLoading = false
    closeSilent(app.server?.port ?? 0)
    const nowMs = performance.now()
    if (nowMs - loggedMs < LOG_MS) return
    loggedMs = nowMs
    const message = `file descriptors are running out; closing idle connections. ${RAISE}, or find out who opens so many`
    log.warn('file_descriptors_low', message, { limit })
  }
  let timer = setTimeout(look, MIN_LOOK_MS)
  return () => clearTimeout(timer)
}

/**
 * Closes connections to `port` that sent no request yet. Bun has no handle for them, so this asks the kernel through
 * libc, on Linux, where TCP_INFO has byte counts. Elsewhere Bun closes them after about 12 seconds.
 */
type CloseSilent = (port: number) => void

/** The same on x64 and arm64. */
const IPPROTO_TCP = 6
const TCP_INFO = 11
const SHUT_RDWR = 2
/** Offsets in `struct tcp_info` of linux/tcp.h; older kernels lack the last two. */
const LAST_DATA_RECEIVED_MS = 52
const BYTES_ACKED = 120
const BYTES_RECEIVED = 128
const INFO_BYTES = 136

/** Any request with a key is longer; others get an immediate response. */
const MIN_REQUEST_BYTES = 96
/** A real client sends its request within a round trip. */
const SILENT_MS = 100
/** Takes less than 5 ms. */
const MAX_LOOKED_AT = 4_096

/**
 * Never throws.
 * @param maxFiles limit of this process.
 */
async function createCloseSilent(maxFiles: number): Promise<CloseSilent> {
  const system = await loadLibc()
  if (system === null) return () => {}
  const { getsockopt, getsockname, shutdown, ptr } = system
  const info = new DataView(new ArrayBuffer(INFO_BYTES))
  const address = new DataView(new ArrayBuffer(128))
  const length = new Int32Array(1)
  const at = { info: ptr(info), address: ptr(address), length: ptr(length) }
  let next = 0

  const isSilent = (file: number, port: number): boolean => {
    length[0] = INFO_BYTES
    if (getsockopt(file, IPPROTO_TCP, TCP_INFO, at.info, at.length) !== 0 || length[0] < INFO_BYTES) return false
    if (info.getBigUint64(BYTES_RECEIVED, true) >= MIN_REQUEST_BYTES) return false
    // The handshake may count as one.
    if (info.getBigUint64(BYTES_ACKED, true) > 1) return false
    if (info.getUint32(LAST_DATA_RECEIVED_MS, true) < SILENT_MS) return false
    length[0] = address.byteLength
    return getsockname(file, at.address, at.length) === 0 && address.getUint16(2) === port
  }

  return (port) => {
    for (let count = Math.min(maxFiles, MAX_LOOKED_AT); count > 0; count--) {
      // Bun notices the end and closes the connection. Its number can't be reused before.
      if (isSilent(next, port)) shutdown(next, SHUT_RDWR)
      next = (next + 1) % maxFiles
    }
  }
}
