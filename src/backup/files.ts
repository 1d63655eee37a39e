/**
 * Files of backups: how one is written beside its final name and takes it whole, and how those that a schedule has made are
 * named and found. What has no final name yet is nobody's backup: a kill or a full disk leaves such a part, which the next one
 * to the same place removes.
 */
import {
  chmodSync,
  closeSync,
  existsSync,
  lchownSync,
  linkSync,
  lstatSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import { filesIn, listSegments } from '../ledger/journal-folder.ts'
import { syncPath } from '../store/disk.ts'

/** Of a data folder: backups of its schedule, copies from before migrations, and what a restore has replaced. */
export const BACKUPS = 'backups'

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

/** By the process that writes it; SQLite puts files of its own beside one that it changes. */
const PART = /\.(\d+)\.part(?:-journal|-wal|-shm)?$/

/** Makes an empty file beside `file`, for its owner alone, and removes what runs that were killed have left there. */
export function beginPart(file: string): string {
  removeParts(dirname(file), (name) => name === basename(file))
  const part = `${file}.${process.pid}.part`
  try {
    rmSync(part, { force: true })
    closeSync(openSync(part, 'wx', 0o600))
    chmodSync(part, 0o600)
    return part
  } catch (cause) {
    throw unwritable(file, messageOf(cause))
  }
}

/** Removes the parts in a folder that nobody writes any more, of files whose names are meant. */
export function removeParts(folder: string, isMeant: (name: string) => boolean): void {
  for (const part of filesIn(folder)) {
    const [ending, pid] = PART.exec(part) ?? []
    if (ending === undefined || !isMeant(part.slice(0, -ending.length)) || isAlive(Number(pid))) continue
    rmSync(join(folder, part), { force: true })
  }
}

/** Gives a part its final name, once all of it is on the disk. Throws a ServiceError where somebody else has taken the name. */
export function finishPart(part: string, file: string, force: boolean): void {
  syncPath(part)
  if (force) renameSync(part, file)
  else takeName(part, file)
  syncPath(dirname(file))
}

/** A link fails where the name is taken, as a rename would not. Not every file system has links. */
function takeName(part: string, file: string): void {
  try {
    linkSync(part, file)
    rmSync(part)
  } catch (error) {
    if (codeOf(error) === 'EEXIST' || statOf(file)) throw exists(file)
    renameSync(part, file)
  }
}

/** Gives what root has made to whom a folder belongs: a server of that user could not use it otherwise. Follows no link: that user may have made it. */
export function giveToOwner(folder: string, paths: readonly string[]): void {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = statSync(folder)
  for (const path of paths) if (existsSync(path)) lchownSync(path, uid, gid)
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return codeOf(error) === 'EPERM'
  }
}

const statOf = (path: string) => statSync(path, { throwIfNoEntry: false })

/** Says that a backup cannot be written, and why. */
export const unwritable = (path: string, why: string) =>
  new ServiceError({ kind: 'backup_unwritable', path }, `No backup can be written to ${path}: ${why}.`)

const exists = (path: string) => new ServiceError({ kind: 'backup_exists', path }, `There is a file ${path} already.`)
