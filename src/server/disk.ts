/** Watches disk usage of the data folder. Removes and rejects nothing: the journal handles a full disk. */
import { lstat, readdir, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { DiskState } from '../documents/server.ts'
import { codeOf } from '../domain/error.ts'
import { DAY_MS } from '../domain/time.ts'
import { SEGMENT_BYTES } from '../ledger/journal.ts'
import type { Log } from '../log.ts'
import type { Space } from '../store/ledger-store.ts'

/**
 * Preallocated journal space besides the segment being written; without it, a full disk would mean rejected requests.
 */
export const MIN_FREE_BYTES = 2 * SEGMENT_BYTES
/** Low thresholds: for free disk space, and for the rest of `--disk-budget`. */
const LOW_FREE_BYTES = 32 * MIN_FREE_BYTES
const LOW_PART = 0.1

export interface Measured {
  /** All files in the data folder; hard links count once, symbolic links are not followed. */
  usedBytes: number
  /** Free pages of the database, which are reused before it grows. */
  reusableBytes: number
  freeBytes: number
}

/** Throws if the folder can't be read. */
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

/**
 * 0 for files that were removed.
 * @param counted hard-linked files seen so far.
 */
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

const LOOK_MS = 10_000

export interface DiskWatch {
  state(): DiskState | null
  look(): Promise<void>
  stop(): void
}

export interface DiskWatchDeps {
  dataFolder: string
  budgetBytes: number | null
  space(): Space
  /** Monotonic clock, ms. */
  monotonicMs(): number
  log: Log
}

/** Checks now, then every 10 seconds. */
export function watchDisk({ dataFolder, budgetBytes, space, monotonicMs, log }: DiskWatchDeps): DiskWatch {
  let state: DiskState | null = null
  let logged: { state: DiskState['state']; atMs: number } | null = null
  let isFailing = false
  let looking: Promise<void> | null = null
  let isStopped = false

  const report = ({ state, ...figures }: DiskState) => {
    if (state === 'ok') {
      if (logged !== null) log.info('disk_recovered', 'disk space recovered', figures)
      logged = null
      return
    }
    const isWorse = logged?.state === 'filling' && state === 'full'
    if (logged !== null && !isWorse && monotonicMs() - logged.atMs < DAY_MS) return
    logged = { state, atMs: monotonicMs() }
    const what = state === 'full' ? 'out of' : 'low on'
    log.warn('disk_filling', `data folder is ${what} disk space; free space or lower --retention`, figures)
  }

  const look = async () => {
    try {
      const measured = await measureDisk(dataFolder, space())
      if (isStopped) return
      state = toDiskState(measured, budgetBytes)
      report(state)
      isFailing = false
    } catch (error) {
      if (!isFailing) log.warn('disk_unknown', 'disk space cannot be measured', { error: String(error) })
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
