/**
 * Open files: how many this process may have, and what is done when they run out. Each connection takes one, of clients as of
 * upstreams, and without any left nobody new is answered, while Bun's loop spins on those that wait. Bun itself raises the
 * soft limit to the hard one when it starts; the rest of that limit is the operator's.
 */

import type { Pointer } from 'bun:ffi'
import type { Log } from '../log.ts'
import { nextFreeFile, noteShortage } from '../upstreams/shortage.ts'
import type { FileLimit } from './protocol.ts'

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

interface FileWatchDeps {
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
    log.warn('file_descriptors_low', message, { limit })
  }
  const timer = setInterval(look, LOOK_MS)
  return () => clearInterval(timer)
}

/**
 * Closes connections of clients that have asked nothing, when files run out; `port` is the one that the server listens on. Bun gives them
 * no handle before their first request, so the system is asked, through its C library: on Linux, where TCP says how much each side has
 * sent. Elsewhere nobody is found; what then ends them is Bun's own limit of some 12 seconds for a connection's first request.
 */
type CloseSilent = (port: number) => void

const LIBRARIES = ['libc.so.6', `libc.musl-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}.so.1`]

/** The same on x64 and arm64. */
const IPPROTO_TCP = 6
const TCP_INFO = 11
const SHUT_RDWR = 2
/** Where `struct tcp_info` of linux/tcp.h has its fields; of an older system's the last two are not there. */
const LAST_DATA_RECEIVED_MS = 52
const BYTES_ACKED = 120
const BYTES_RECEIVED = 128
const INFO_BYTES = 136

/** Any request with a key is longer: its first line and its key alone are. What has none is answered at once. */
const MIN_REQUEST_BYTES = 96
/** A client that means to ask does so within a round trip of its connection. */
const SILENT_MS = 100
/** How many files are looked at in one go: less than 5 ms. */
const MAX_LOOKED_AT = 4_096

/**
 * Makes the one for this system. Never throws.
 *
 * @param maxFiles the most files that this process may have open.
 */
async function createCloseSilent(maxFiles: number): Promise<CloseSilent> {
  const system = process.platform === 'linux' ? await loadSystem() : null
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
      // Bun, which has the file, hears that it has ended, and closes it: nothing else can have taken its number by then.
      if (isSilent(next, port)) shutdown(next, SHUT_RDWR)
      next = (next + 1) % maxFiles
    }
  }
}

interface System {
  getsockopt(file: number, level: number, name: number, value: Pointer, length: Pointer): number
  getsockname(file: number, address: Pointer, length: Pointer): number
  shutdown(file: number, how: number): number
  ptr(view: DataView | Int32Array): Pointer
}

async function loadSystem(): Promise<System | null> {
  for (const library of LIBRARIES) {
    try {
      const { dlopen, ptr } = await import('bun:ffi')
      const { symbols } = dlopen(library, {
        getsockopt: { args: ['i32', 'i32', 'i32', 'ptr', 'ptr'], returns: 'i32' },
        getsockname: { args: ['i32', 'ptr', 'ptr'], returns: 'i32' },
        shutdown: { args: ['i32', 'i32'], returns: 'i32' },
      })
      return { ...symbols, ptr }
    } catch {
      // Not the library of this system.
    }
  }
  return null
}
