/** A wall clock of a server that a test sets while it runs, by a library that is loaded before the C library. */
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'

export interface ServerClock {
  /** Of the server. */
  environment: Record<string, string>
  /** Seconds that it is ahead. */
  step(seconds: number): void
}

/** @param folder takes its files. Null if this machine has no C compiler, or no such libraries. */
export function createServerClock(folder: string): ServerClock | null {
  const compiler = process.platform === 'linux' ? Bun.which('cc') : null
  if (compiler === null) return null
  const [library, file] = [join(folder, 'clock.so'), join(folder, 'clock')]
  const source = join(import.meta.dir, 'clock.c')
  const { exitCode, stderr } = Bun.spawnSync([compiler, '-shared', '-fPIC', '-O2', '-o', library, source, '-ldl'])
  if (exitCode !== 0) throw new Error(stderr.toString())
  writeFileSync(file, new Uint8Array(8))
  return {
    environment: { LD_PRELOAD: library, CLOCK_FILE: file },
    step(seconds) {
      // In place: the server has it in its memory.
      const handle = openSync(file, 'r+')
      writeSync(handle, new BigInt64Array([BigInt(seconds)]), 0, 8, 0)
      closeSync(handle)
    },
  }
}
