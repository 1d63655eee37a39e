/**
 * Has a backup made every so often while a server runs, into the `backups/` of its data folder, and removes the oldest of its
 * own beyond a number. Each is made by a process of its own, whose end is all that the server sees. `server.ts` starts it.
 */
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '../domain/error.ts'
import type { Log } from '../log.ts'
import { BACKUPS, removeParts } from '../store/copy-file.ts'
import { listScheduled, toScheduledName } from './files.ts'

/** Not beside the first requests after a start. */
const FIRST_MS = 2_000
const LOOK_MS = 10_000
/** After a failure. */
const RETRY_MS = 600_000

/** Writes a backup. Resolves to what is wrong, also where it wrote one; null where nothing is. Ends with its signal. */
export type MakeBackup = (file: string, signal: AbortSignal) => Promise<string | null>

export interface Schedule {
  /** Why the last one could not be made, or what an audit found in it; null where all was well. */
  readonly failed: string | null
  /** Makes one where it is due. Resolves once it is made, or is not. */
  look(): Promise<void>
  /** Gives up one that is being made. */
  stop(): Promise<void>
}

export interface ScheduleDeps {
  dataFolder: string
  /** From one to the next; 0 = never. */
  everyMs: number
  /** How many are kept. */
  keep: number
  make: MakeBackup
  /** Wall clock, ms. */
  now(): number
  log: Log
}

export function startSchedule({ dataFolder, everyMs, keep, make, now, log }: ScheduleDeps): Schedule {
  const folder = join(dataFolder, BACKUPS)
  const stopped = new AbortController()
  let failed: string | null = null
  /** When one failed last, until one is made; by a clock that may have been set since. */
  let failedMs: number | null = null
  let making: Promise<void> | null = null

  /** One with a time to come is of a clock that was set back: it is neither the last one nor in the way of others. */
  const past = () => listScheduled(dataFolder).filter(({ madeMs }) => madeMs <= now())

  const makeNext = async () => {
    const file = join(folder, toScheduledName(now()))
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      removeParts(folder)
      failed = await make(file, stopped.signal)
      if (!existsSync(file)) failed ??= 'it was not written'
      else for (const { path } of past().slice(0, -keep)) rmSync(path, { force: true })
    } catch (error) {
      failed = messageOf(error)
    }
    if (stopped.signal.aborted) return
    failedMs = failed === null ? null : now()
    if (failed === null) return log.info('backup_made', 'a backup was made', { file })
    log.error('backup_failed', 'the scheduled backup failed, or is not as it should be', { file, error: failed })
  }

  const look = (): Promise<void> => {
    const nowMs = now()
    const sinceMs = failedMs === null ? Number.POSITIVE_INFINITY : nowMs - failedMs
    const mayTry = sinceMs < 0 || sinceMs >= Math.min(RETRY_MS, everyMs)
    const isDue = mayTry && nowMs >= (past().at(-1)?.madeMs ?? 0) + everyMs
    if (making === null && isDue && !stopped.signal.aborted)
      making = makeNext().finally(() => {
        making = null
      })
    return making ?? Promise.resolve()
  }

  const timers = everyMs === 0 ? [] : [setTimeout(look, FIRST_MS), setInterval(look, LOOK_MS)]
  return {
    get failed() {
      return failed
    },
    look,
    async stop() {
      for (const timer of timers) clearTimeout(timer)
      stopped.abort()
      await making
    },
  }
}
