/** A clock shared by all processes of the machine. */
import { dlopen, ptr } from 'bun:ffi'

const CLOCK_MONOTONIC = 1
/** Seconds and nanoseconds, 64 bits each. */
const time = new ArrayBuffer(16)
const fields = new DataView(time)
const address = ptr(new Uint8Array(time))
const { symbols } = dlopen('libc.so.6', { clock_gettime: { args: ['i32', 'ptr'], returns: 'i32' } })

/** Microseconds since boot (Linux with glibc); `process.hrtime` counts from the start of its process. */
export function machineMicros(): number {
  symbols.clock_gettime(CLOCK_MONOTONIC, address)
  return Number(fields.getBigInt64(0, true)) * 1e6 + Number(fields.getBigInt64(8, true)) / 1e3
}
