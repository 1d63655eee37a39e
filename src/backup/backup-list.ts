/**
 * Backups in `backups/` of a data folder: created one at a time in a separate process, by schedule or on an owner's request, listed, and found by name. Only
 * the oldest scheduled ones are deleted automatically, above a number.
 */
import { existsSync, rmSync } from 'node:fs'
import { lstat, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Log } from '../log.ts'
import type { Actor, ConfigStore } from '../store/config-store.ts'
import { BACKUPS, filesIn, removeParts, toStamp } from '../store/files.ts'

/** Writes a backup. Resolves to a problem, even if the file was written; null if there is none. Aborts with the signal. */
export type MakeBackup = (file: string, signal: AbortSignal) => Promise<string | null>

export interface ListedBackup {
  name: string
  /** `made`: on request; `other`: placed there by someone. */
  kind: 'scheduled' | 'made' | 'before_migration' | 'other'
  bytes: number
  /** Last change. */
  madeMs: number
}

export interface BackupList {
  /** Oldest first. */
  list(): Promise<ListedBackup[]>
  /** The backup in progress, and the problem of the last one on request. */
  state(): { making: string | null; failed: string | null }
  scheduledFailed(): string | null
  /** Starts a backup, and returns its name. Throws `backup_under_way`. */
  begin(by: Actor): Promise<string>
  /** Creates a scheduled backup if due. Resolves when done, even if it failed. */
  look(): Promise<void>
  /** A backup for download. Throws `backup_not_found`. */
  take(name: string, by: Actor): Promise<ListedBackup & { path: string }>
  /** Cancels a backup in progress. */
  stop(): Promise<void>
}

export interface BackupListDeps {
  dataFolder: string
  store: Pick<ConfigStore, 'changeSettings'>
  everyMs: number
  keep: number
  make: MakeBackup
  /** Wall clock, ms. */
  now(): number
  log: Log
}

const SCHEDULED = /^scheduled-(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)Z\.sqlite$/

export const toScheduledName = (ms: number) => `scheduled-${toStamp(ms)}.sqlite`

export interface Scheduled {
  path: string
  madeMs: number
}

/** Oldest first. */
export function listScheduled(dataFolder: string): Scheduled[] {
  const folder = join(dataFolder, BACKUPS)
  return filesIn(folder).flatMap((name) => {
    const [, day, ...time] = SCHEDULED.exec(name) ?? []
    const madeMs = day === undefined ? Number.NaN : Date.parse(`${day}T${time.join(':')}Z`)
    return Number.isNaN(madeMs) ? [] : [{ path: join(folder, name), madeMs }]
  })
}

/** After the first requests of a start. */
const FIRST_MS = 2_000
const LOOK_MS = 10_000
/** After a failure. */
const RETRY_MS = 600_000

export function createBackupList({ dataFolder, store, everyMs, keep, make, now, log }: BackupListDeps): BackupList {
  const folder = join(dataFolder, BACKUPS)
  const stopped = new AbortController()
  let making: { name: string; done: Promise<void> } | null = null
  const failed: Record<'made' | 'scheduled', string | null> = { made: null, scheduled: null }
  /** Time of the last scheduled failure, until one succeeds; the clock may have been set since. */
  let failedMs: number | null = null

  /** Ignores scheduled backups in the future, after the clock was set back. */
  const past = () => listScheduled(dataFolder).filter(({ madeMs }) => madeMs <= now())

  const list = async (): Promise<ListedBackup[]> => {
    const found = await Promise.all((await namesIn(folder)).map((name) => lookAt(folder, name)))
    return found.filter((one) => one !== null).sort((a, b) => a.madeMs - b.madeMs || (a.name < b.name ? -1 : 1))
  }

  const note = (by: Actor, action: 'backups.create' | 'backups.download', name: string) =>
    store.changeSettings(by, () => ({ value: null, change: { action, subject: name, detail: {}, write: {} } }))

  /** The problem; null if there is none. */
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
    if (why === null) log.info('backup_created', 'backup created', { file })
    else log.error('backup_failed', 'backup failed or has problems', { file, error: why })
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
  new ServiceError({ kind: 'backup_under_way' }, `A backup is already in progress: ${name}.`)

const notFound = (name: string) =>
  new ServiceError({ kind: 'backup_not_found', name }, `Backup '${name.slice(0, 200)}' not found in ${BACKUPS}/.`)

/** Empty if the folder is missing. */
async function namesIn(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).filter((name) => name.endsWith('.sqlite'))
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return []
    throw error
  }
}

/** Null if it is not a file, or missing. */
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
