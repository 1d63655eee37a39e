/** Functions of the system's C library that Bun doesn't offer. Linux only. */
import type { Pointer } from 'bun:ffi'

const LIBRARIES = ['libc.so.6', `libc.musl-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}.so.1`]

export interface Libc {
  getsockopt(file: number, level: number, name: number, value: Pointer, length: Pointer): number
  setsockopt(file: number, level: number, name: number, value: Pointer, length: number): number
  getsockname(file: number, address: Pointer, length: Pointer): number
  shutdown(file: number, how: number): number
  socket(family: number, type: number, protocol: number): number
  sendto(file: number, data: Pointer, bytes: number, flags: number, address: Pointer, length: number): number | bigint
  ptr(view: NodeJS.TypedArray | DataView): Pointer
}

/** Null on other systems. */
export async function loadLibc(): Promise<Libc | null> {
  if (process.platform !== 'linux') return null
  for (const library of LIBRARIES) {
    try {
      const { dlopen, ptr } = await import('bun:ffi')
      const { symbols } = dlopen(library, {
        getsockopt: { args: ['i32', 'i32', 'i32', 'ptr', 'ptr'], returns: 'i32' },
        setsockopt: { args: ['i32', 'i32', 'i32', 'ptr', 'u32'], returns: 'i32' },
        getsockname: { args: ['i32', 'ptr', 'ptr'], returns: 'i32' },
        shutdown: { args: ['i32', 'i32'], returns: 'i32' },
        socket: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
        sendto: { args: ['i32', 'ptr', 'u64', 'i32', 'ptr', 'u32'], returns: 'i64' },
      })
      return { ...symbols, ptr }
    } catch {}
  }
  return null
}
