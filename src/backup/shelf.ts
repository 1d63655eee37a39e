/**
 * The backups in `backups/` of a data folder, for whoever runs the server from afar: listed, made by a process of its own, and found by
 * their names alone. Nothing else of the folder is told of, or given out. `server.ts` makes it; the admin API presents it.
 */
import { lstat, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Log } from '../log.ts'
import type { Actor, ConfigStore } from '../store/config-store.ts'
import { BACKUPS, removeParts } from '../store/copy-file.ts'
import { toStamp } from './files.ts'
import type { MakeBackup } from './schedule.ts'

export interface ShelvedBackup {
  name: string
  /** `made`: by somebody, here; `other`: somebody has put it there. */
  kind: 'scheduled' | 'made' | 'before_migration' | 'other'
  bytes: number
  /** Of its last change. */
  madeMs: number
}

export interface BackupShelf {
  /** Oldest first. */
  list(): Promise<ShelvedBackup[]>
  /** The name of the one that is being made, and why the last one was not, or is not as it should be. */
  state(): { making: string | null; failed: string | null }
  /** Begins to make one, and returns its name. Throws `backup_under_way`. */
  begin(by: Actor): Promise<string>
  /** Where one of those that are listed lies, for whoever is given it. Throws `backup_not_found`. */
  take(name: string, by: Actor): Promise<ShelvedBackup & { path: string }>
  /** Gives up one that is being made. */
  stop(): Promise<void>
}

export interface ShelfDeps {
  dataFolder: string
  store: Pick<ConfigStore, 'changeSettings'>
  make: MakeBackup
  log: Log
}

export function createShelf({ dataFolder, store, make, log }: ShelfDeps): BackupShelf {
  const folder = join(dataFolder, BACKUPS)
  const stopped = new AbortController()
  let making: { name: string; done: Promise<void> } | null = null
  let failed: string | null = null

  const list = async (): Promise<ShelvedBackup[]> => {
    const found = await Promise.all((await namesIn(folder)).map((name) => look(folder, name)))
    return found.filter((one) => one !== null).sort((a, b) => a.madeMs - b.madeMs || (a.name < b.name ? -1 : 1))
  }

  const note = (by: Actor, action: 'backups.create' | 'backups.download', name: string) =>
    store.changeSettings(by, () => ({ value: null, change: { action, subject: name, detail: {}, write: {} } }))

  const run = async (name: string) => {
    const file = join(folder, name)
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      removeParts(folder)
      failed = await make(file, stopped.signal)
    } catch (error) {
      failed = messageOf(error)
    }
    making = null
    if (stopped.signal.aborted) return
    if (failed === null) log.info('backup_made', 'a backup was made', { file })
    else log.error('backup_failed', 'a backup failed, or is not as it should be', { file, error: failed })
  }

  return {
    list,
    state: () => ({ making: making?.name ?? null, failed }),
    async begin(by) {
      if (making) throw underWay(making.name)
      const name = `made-${toStamp(by.nowMs)}.sqlite`
      const begun = { name, done: Promise.resolve() }
      making = begun
      try {
        await note(by, 'backups.create', name)
      } catch (error) {
        making = null
        throw error
      }
      begun.done = run(name)
      return name
    },
    async take(name, by) {
      const found = (await list()).find((one) => one.name === name)
      if (!found) throw notFound(name)
      await note(by, 'backups.download', name)
      return { ...found, path: join(folder, name) }
    },
    async stop() {
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
async function look(folder: string, name: string): Promise<ShelvedBackup | null> {
  const found = await lstat(join(folder, name)).catch(() => null)
  if (!found?.isFile()) return null
  return { name, kind: kindOf(name), bytes: found.size, madeMs: Math.round(found.mtimeMs) }
}

function kindOf(name: string): ShelvedBackup['kind'] {
  if (name.startsWith('scheduled-')) return 'scheduled'
  if (name.startsWith('made-')) return 'made'
  return name.startsWith('before-migration-') ? 'before_migration' : 'other'
}
