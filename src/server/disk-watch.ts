/**
 * Looks every minute how full the disk is, and warns days before it is: in `/readyz` (degraded), in the log once a day. It never
 * takes anything away and refuses nothing: what a disk that is really full means for requests, the journal decides.
 */
import type { DiskState } from '../documents/server.ts'
import { DAY_MS } from '../domain/time.ts'
import type { Log } from '../log.ts'
import type { Space } from '../store/ledger-store.ts'
import { addToHistory, type DaySize, measureDisk, toDaySizes, toDiskState } from './disk.ts'

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
  /** What was measured once a day; null where nothing was. */
  readHistory(): string | null
  /** Throws where the database takes nothing at the moment. */
  writeHistory(text: string): void
  /** Wall clock, ms. */
  now(): number
  /** A clock that never steps, ms. */
  monotonicMs(): number
  log: Log
}

/** Looks once now, then every minute. */
export function watchDisk(deps: DiskWatchDeps): DiskWatch {
  const { dataFolder, budgetBytes, now, monotonicMs, log } = deps
  let state: DiskState | null = null
  let told: { state: DiskState['state']; atMs: number } | null = null
  let isFailing = false
  let looking: Promise<void> | null = null
  let isStopped = false

  const measure = async () => {
    const measured = await measureDisk(dataFolder, deps.space())
    if (isStopped) return
    const history = toDaySizes(deps.readHistory())
    state = toDiskState(measured, history, budgetBytes, now())
    tell(state)
    isFailing = false
    const added = addToHistory(history, measured, now())
    if (added !== null) keep(added)
  }

  const keep = (history: readonly DaySize[]) => {
    try {
      deps.writeHistory(JSON.stringify(history))
    } catch {
      // Another writer is at work, say: the next look tries again.
    }
  }

  const tell = ({ state, ...figures }: DiskState) => {
    if (state === 'ok') {
      if (told !== null) log.info('disk_has_room', 'the disk has room again', figures)
      told = null
      return
    }
    const isWorse = told?.state === 'filling' && state === 'full'
    if (told !== null && !isWorse && monotonicMs() - told.atMs < DAY_MS) return
    told = { state, atMs: monotonicMs() }
    const what =
      state === 'full'
        ? 'the data folder has used up its room on the disk: make room, or keep requests for a shorter time (--keep)'
        : 'the data folder will have used up its room on the disk within days: make room, or keep requests for a shorter time (--keep)'
    log.warn('disk_filling', what, figures)
  }

  const look = async () => {
    try {
      await measure()
    } catch (error) {
      if (!isFailing) log.warn('disk_unknown', 'the room on the disk cannot be measured', { error: String(error) })
      isFailing = true
    }
    looking = null
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
