/**
 * How a running server has its scheduled backups made: by `tollgate backup`, as a process of its own, so that neither copying
 * nor checking takes anything from requests but a share of the disk.
 */
import type { MakeBackup } from '../backup/schedule.ts'
import { toSelf } from './invocation.ts'
import type { Context } from './io.ts'

export function createBackupMaker({ dataFolder, environment, cwd }: Context): MakeBackup {
  return async (file, signal) => {
    const child = Bun.spawn([...toSelf(), 'backup', file, '--data', dataFolder, '--json'], {
      cwd,
      env: environment,
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'pipe',
      signal,
      killSignal: 'SIGKILL',
    })
    const said = await child.stderr.text()
    const code = await child.exited
    return code === 0 ? null : toMessage(said, code)
  }
}

function toMessage(said: string, code: number): string {
  try {
    const document: { error?: { message?: unknown } } = JSON.parse(said)
    if (typeof document.error?.message === 'string') return document.error.message
  } catch {
    // It ended otherwise than by its own words.
  }
  return said.trim() || `tollgate backup ended with ${code}`
}
