/**
 * How much of the disk the data folder takes, and whether room is short. A server looks every minute and says so: in `/readyz` (degraded), in
 * the log once a day. Nothing is removed or refused for it: what a disk that is really full means for requests, the journal decides.
 */
import { lstat, readdir, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { DiskState } from '../documents/server.ts'
import { codeOf } from '../domain/error.ts'
import { DAY_MS } from '../domain/time.ts'
import { SEGMENT_BYTES } from '../ledger/journal.ts'
import type { Log } from '../log.ts'
import type { Space } from '../store/ledger-store.ts'

/** What is ready of the journal beside what is being written: without it a full disk would end in refusals. */
export const MIN_FREE_BYTES = 2 * SEGMENT_BYTES
/** Less is short: free on the disk, and left of `--disk-budget`. */
const LOW_FREE_BYTES = 32 * MIN_FREE_BYTES
const LOW_PART = 0.1

export interface Measured {
  /** Of all files in the data folder. A file with several names counts once; links are not followed. */
  usedBytes: number
  /** Part of it that is used again before anything grows: free pages of the database. */
  reusableBytes: number
  /** What the file system has left for this user. */
  freeBytes: number
}

/** Measures off the event loop. Throws what the system says of the folder itself. */
export async function measureDisk(dataFolder: string, space: Space | null): Promise<Measured> {
  const [usedBytes, { bavail, bsize }] = await Promise.all([sizeIn(dataFolder, new Set()), statfs(dataFolder)])
  const reusableBytes = space === null ? 0 : space.freePages * space.pageBytes
  return { usedBytes, reusableBytes, freeBytes: bavail * bsize }
}

async function sizeIn(folder: string, counted: Set<string>): Promise<number> {
  let bytes = 0
  for (const name of await readdir(folder)) bytes += await sizeOf(join(folder, name), counted)
  return bytes
}

/** 0 for what has just been removed. @param counted files with several names that were seen. */
async function sizeOf(path: string, counted: Set<string>): Promise<number> {
  try {
    const found = await lstat(path)
    if (found.isDirectory()) return await sizeIn(path, counted)
    if (!found.isFile()) return 0
    const id = `${found.dev} ${found.ino}`
    if (counted.has(id)) return 0
    if (found.nlink > 1) counted.add(id)
    return found.size
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return 0
    throw error
  }
}

/** Pure. @param budgetBytes null = none. */
export function toDiskState({ usedBytes, reusableBytes, freeBytes }: Measured, budgetBytes: number | null): DiskState {
  const left = budgetBytes === null ? Number.POSITIVE_INFINITY : budgetBytes - usedBytes
  const isFull = freeBytes < MIN_FREE_BYTES || left <= 0
  const isLow = freeBytes < LOW_FREE_BYTES || left + reusableBytes < (budgetBytes ?? 0) * LOW_PART
  return {
    state: isFull ? 'full' : isLow ? 'filling' : 'ok',
    used_bytes: usedBytes,
    reusable_bytes: reusableBytes,
    free_bytes: freeBytes,
    budget_bytes: budgetBytes,
  }
}

const LOOK_MS = 60_000

export interface DiskWatch {
  /** As of the last look; null before the first one. */
  state(): DiskState | null
  /** Looks now. Never rejects. */
  look(): Promise<void>
  stop(): void
}

export interface DiskWatchDeps {
  dataFolder: string
  /** Null = whatever the disk has. */
  budgetBytes: number | null
  space(): Space
  /** A clock that never steps, ms. */
  monotonicMs(): number
  log: Log
}

/** Looks once now, then every minute. */
export function watchDisk({ dataFolder, budgetBytes, space, monotonicMs, log }: DiskWatchDeps): DiskWatch {
  let state: DiskState | null = null
  let told: { state: DiskState['state']; atMs: number } | null = null
  let isFailing = false
  let looking: Promise<void> | null = null
  let isStopped = false

  const tell = ({ state, ...figures }: DiskState) => {
    if (state === 'ok') {
      if (told !== null) log.info('disk_recovered', 'the disk has room again', figures)
      told = null
      return
    }
    const isWorse = told?.state === 'filling' && state === 'full'
    if (told !== null && !isWorse && monotonicMs() - told.atMs < DAY_MS) return
    told = { state, atMs: monotonicMs() }
    const what = state === 'full' ? 'has used up its room on the disk' : 'has little room left on the disk'
    log.warn(
      'disk_filling',
      `the data folder ${what}: make room, or keep requests for a shorter time (--retention)`,
      figures,
    )
  }

  const look = async () => {
    try {
      const measured = await measureDisk(dataFolder, space())
      if (isStopped) return
      state = toDiskState(measured, budgetBytes)
      tell(state)
      isFailing = false
    } catch (error) {
      if (!isFailing) log.warn('disk_unknown', 'the room on the disk cannot be measured', { error: String(error) })
      isFailing = true
    } finally {
      looking = null
    }
  }

  const watch = {
    state: () => state,
    look: () => (looking ??= look()),
    stop() {
      isStopped = true
      clearInterval(timer)
    },
  }
  const timer = setInterval(watch.look, LOOK_MS).unref()
  void watch.look()
  return watch
}
