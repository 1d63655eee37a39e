/** A server's wall clock that a test sets while the server runs, by a library loaded before the C library. */
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'

export interface ServerClock {
  /** Environment of the server. */
  environment: Record<string, string>
  /** Seconds that the clock is ahead. */
  step(seconds: number): void
}

/** @param folder for its files. Null if this machine has no C compiler, or lacks the libraries. */
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
      // Written in place: the server has mapped the file.
      const handle = openSync(file, 'r+')
      writeSync(handle, new BigInt64Array([BigInt(seconds)]), 0, 8, 0)
      closeSync(handle)
    },
  }
}
