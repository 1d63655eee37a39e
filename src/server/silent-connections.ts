/**
 * Closes connections of clients that have asked nothing, for `files.ts`, when files run out. Bun gives them no handle before
 * their first request, so the system is asked, through its C library: on Linux, where TCP says how much each side has sent.
 * Elsewhere, or where the library cannot be called, nobody is found; what then ends them is Bun's own limit of some 12
 * seconds for a connection's first request.
 */
import type { Pointer } from 'bun:ffi'

/** Closes those it finds. `port` is the one that the server listens on. */
export type CloseSilent = (port: number) => void

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
const LEAST_REQUEST_BYTES = 96
/** A client that means to ask does so within a round trip of its connection. */
const SILENT_MS = 100
/** How many files are looked at in one go: less than 5 ms. */
const MAX_LOOKED_AT = 4_096

/**
 * Makes the one for this system. Never throws.
 *
 * @param maxFiles the most files that this process may have open.
 */
export async function createCloseSilent(maxFiles: number): Promise<CloseSilent> {
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
    if (info.getBigUint64(BYTES_RECEIVED, true) >= LEAST_REQUEST_BYTES) return false
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
