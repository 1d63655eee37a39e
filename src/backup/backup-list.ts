/**
 * The backups in `backups/` of a data folder, beside a running server: made one at a time by a process of its own, every so often and when
 * an owner wants one; listed, and found by their names alone. The oldest of those that the schedule has made go beyond a number, and nothing
 * else is removed, told of or given out. `server.ts` makes it; the admin API presents it.
 */
import { existsSync, rmSync } from 'node:fs'
import { lstat, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Log } from '../log.ts'
import type { Actor, ConfigStore } from '../store/config-store.ts'
import { BACKUPS, filesIn, removeParts, toStamp } from '../store/files.ts'

/** Writes a backup. Resolves to what is wrong, also where it wrote one; null where nothing is. Ends with its signal. */
export type MakeBackup = (file: string, signal: AbortSignal) => Promise<string | null>

export interface ListedBackup {
  name: string
  /** `made`: by somebody, here; `other`: somebody has put it there. */
  kind: 'scheduled' | 'made' | 'before_migration' | 'other'
  bytes: number
  /** Of its last change. */
  madeMs: number
}

export interface BackupList {
  /** Oldest first. */
  list(): Promise<ListedBackup[]>
  /** The name of the one that is being made, and why the last that somebody wanted was not, or is not as it should be. */
  state(): { making: string | null; failed: string | null }
  /** The same of the last scheduled one. */
  scheduledFailed(): string | null
  /** Begins to make one, and returns its name. Throws `backup_under_way`. */
  begin(by: Actor): Promise<string>
  /** Makes the scheduled one where it is due. Resolves once it is made, or is not. */
  look(): Promise<void>
  /** Where one of those that are listed lies, for whoever is given it. Throws `backup_not_found`. */
  take(name: string, by: Actor): Promise<ListedBackup & { path: string }>
  /** Gives up one that is being made. */
  stop(): Promise<void>
}

export interface BackupListDeps {
  dataFolder: string
  store: Pick<ConfigStore, 'changeSettings'>
  /** From one scheduled backup to the next; 0 = never. */
  everyMs: number
  /** How many of those are kept. */
  keep: number
  make: MakeBackup
  /** Wall clock, ms. */
  now(): number
  log: Log
}

const SCHEDULED = /^scheduled-(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)Z\.sqlite$/

export const toScheduledName = (ms: number) => `scheduled-${toStamp(ms)}.sqlite`

/** A backup that the schedule has made. */
export interface Scheduled {
  path: string
  madeMs: number
}

/** Those that the schedule of a data folder has made, oldest first. Nothing else in that folder is among them. */
export function listScheduled(dataFolder: string): Scheduled[] {
  const folder = join(dataFolder, BACKUPS)
  return filesIn(folder).flatMap((name) => {
    const [, day, ...time] = SCHEDULED.exec(name) ?? []
    const madeMs = day === undefined ? Number.NaN : Date.parse(`${day}T${time.join(':')}Z`)
    return Number.isNaN(madeMs) ? [] : [{ path: join(folder, name), madeMs }]
  })
}

/** Not beside the first requests after a start. */
const FIRST_MS = 2_000
const LOOK_MS = 10_000
/** After a failure. */
const RETRY_MS = 600_000

export function createBackupList({ dataFolder, store, everyMs, keep, make, now, log }: BackupListDeps): BackupList {
  const folder = join(dataFolder, BACKUPS)
  const stopped = new AbortController()
  let making: { name: string; done: Promise<void> } | null = null
  const failed: Record<'made' | 'scheduled', string | null> = { made: null, scheduled: null }
  /** When a scheduled one failed last, until one is made; by a clock that may have been set since. */
  let failedMs: number | null = null

  /** A scheduled one with a time to come is of a clock that was set back: it is neither the last one nor in the way of others. */
  const past = () => listScheduled(dataFolder).filter(({ madeMs }) => madeMs <= now())

  const list = async (): Promise<ListedBackup[]> => {
    const found = await Promise.all((await namesIn(folder)).map((name) => lookAt(folder, name)))
    return found.filter((one) => one !== null).sort((a, b) => a.madeMs - b.madeMs || (a.name < b.name ? -1 : 1))
  }

  const note = (by: Actor, action: 'backups.create' | 'backups.download', name: string) =>
    store.changeSettings(by, () => ({ value: null, change: { action, subject: name, detail: {}, write: {} } }))

  /** Resolves to what is wrong with it; null where nothing is. */
  const makeFile = async (kind: 'made' | 'scheduled', file: string): Promise<string | null> => {
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      removeParts(folder)
      const why = await make(file, stopped.signal)
      if (!existsSync(file)) return why ?? 'it was not written'
      if (kind === 'scheduled') for (const { path } of past().slice(0, -keep)) rmSync(path, { force: true })
      return why
    } catch (error) {
      return messageOf(error)
    }
  }

  const run = async (kind: 'made' | 'scheduled', name: string) => {
    const file = join(folder, name)
    const why = await makeFile(kind, file)
    making = null
    failed[kind] = why
    if (stopped.signal.aborted) return
    if (kind === 'scheduled') failedMs = why === null ? null : now()
    if (why === null) log.info('backup_created', 'a backup was made', { file })
    else log.error('backup_failed', 'a backup failed, or is not as it should be', { file, error: why })
  }

  const isDue = () => {
    const nowMs = now()
    const sinceMs = failedMs === null ? Number.POSITIVE_INFINITY : nowMs - failedMs
    const mayTry = sinceMs < 0 || sinceMs >= Math.min(RETRY_MS, everyMs)
    return mayTry && nowMs >= (past().at(-1)?.madeMs ?? 0) + everyMs
  }

  const look = (): Promise<void> => {
    if (making === null && !stopped.signal.aborted && isDue()) {
      const name = toScheduledName(now())
      making = { name, done: run('scheduled', name) }
    }
    return making?.done ?? Promise.resolve()
  }

  const timers = everyMs === 0 ? [] : [setTimeout(look, FIRST_MS), setInterval(look, LOOK_MS)]
  return {
    list,
    state: () => ({ making: making?.name ?? null, failed: failed.made }),
    scheduledFailed: () => failed.scheduled,
    async begin(by) {
      if (making) throw underWay(making.name)
      const name = `made-${toStamp(by.nowMs)}.sqlite`
      making = { name, done: Promise.resolve() }
      try {
        await note(by, 'backups.create', name)
      } catch (error) {
        making = null
        throw error
      }
      making = { name, done: run('made', name) }
      return name
    },
    look,
    async take(name, by) {
      const found = (await list()).find((one) => one.name === name)
      if (!found) throw notFound(name)
      await note(by, 'backups.download', name)
      return { ...found, path: join(folder, name) }
    },
    async stop() {
      for (const timer of timers) clearTimeout(timer)
      stopped.abort()
      await making?.done
    },
  }
}

const underWay = (name: string) =>
  new ServiceError({ kind: 'backup_under_way' }, `A backup is being made already: ${name}.`)

const notFound = (name: string) =>
  new ServiceError({ kind: 'backup_not_found', name }, `There is no backup '${name.slice(0, 200)}' in ${BACKUPS}/.`)

/** None where there is no such folder yet. */
async function namesIn(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).filter((name) => name.endsWith('.sqlite'))
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return []
    throw error
  }
}

/** Null for what is no file, or is gone. */
async function lookAt(folder: string, name: string): Promise<ListedBackup | null> {
  const found = await lstat(join(folder, name)).catch(() => null)
  if (!found?.isFile()) return null
  return { name, kind: kindOf(name), bytes: found.size, madeMs: Math.round(found.mtimeMs) }
}

function kindOf(name: string): ListedBackup['kind'] {
  if (name.startsWith('scheduled-')) return 'scheduled'
  if (name.startsWith('made-')) return 'made'
  return name.startsWith('before-migration-') ? 'before_migration' : 'other'
}
