/** Files of backups: where one may be written, and how those that a schedule has made are named and found. */
import { existsSync, lchownSync, lstatSync, realpathSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { listSegments } from '../ledger/journal-file.ts'
import { BACKUPS, exists, filesIn, unwritable } from '../store/files.ts'

/** Everything that waits for the database of a folder: its journal, and the `spool/` of older versions. */
export const listJournal = (dataFolder: string) =>
  ['journal', 'spool'].flatMap((name) => listSegments(join(dataFolder, name)))

/** A time as a part of a name, UTC: `2027-01-31T12-00-00Z`. */
export const toStamp = (ms: number) => new Date(ms).toISOString().replace(/\.\d+/, '').replaceAll(':', '-')

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

/** Throws a ServiceError where a backup may not be written there: something has the name, or the data folder would suffer. */
export function requireFree(file: string, dataFolder: string, force: boolean): void {
  const folder = dirname(file)
  const found = statOf(folder)
  if (!found?.isDirectory()) throw unwritable(file, `there is no folder ${folder}`)
  const inside = relative(realpathSync(dataFolder), realpathSync(folder))
  if (inside === '' || (!inside.startsWith('..') && inside !== BACKUPS))
    throw unwritable(
      file,
      `that is in the data folder, which has its own files; ${join(dataFolder, BACKUPS)} is for them`,
    )
  const taken = lstatSync(file, { throwIfNoEntry: false })
  if (!taken) return
  if (!taken.isFile()) throw unwritable(file, 'something that is no file has that name')
  if (!force) throw exists(file)
}

/** Gives what root has made to whom a folder belongs: a server of that user could not use it otherwise. Follows no link: that user may have made it. */
export function giveToOwner(folder: string, paths: readonly string[]): void {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = statSync(folder)
  for (const path of paths) if (existsSync(path)) lchownSync(path, uid, gid)
}

const statOf = (path: string) => statSync(path, { throwIfNoEntry: false })
