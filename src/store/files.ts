/**
 * Files that are there whole or not at all, and the disk below them. A copy of a database, or any other file, is written beside its final name
 * and takes it once it is on the disk. What has no final name yet is nobody's: a kill or a full disk leaves such a part, which is
 * removed later.
 */
import {
  chmodSync,
  closeSync,
  fsyncSync,
  linkSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import { DAY_MS } from '../domain/time.ts'
import type { Space } from './ledger-store.ts'

/** Has a file, or the entries of a folder, survive a power cut. */
export function syncPath(path: string): void {
  const file = openSync(path, 'r')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** What this user may still write on the disk of a folder, in bytes. */
export function freeBytesOf(folder: string): number {
  const { bavail, bsize } = statfsSync(folder)
  return bavail * bsize
}

/** Such as `12 MiB`, rounded up. */
export const toMebibytes = (bytes: number): string => `${Math.ceil(bytes / 1024 ** 2)} MiB`

/** Names in a folder, in order; none where it is no folder, or is not for us. */
export function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder).sort()
  } catch {
    return []
  }
}

/** Of a data folder: backups of its schedule, copies from before migrations, and what a restore has replaced. */
export const BACKUPS = 'backups'

/** A time as a part of a name, UTC: `2027-01-31T12-00-00Z`. */
export const toStamp = (ms: number) => new Date(ms).toISOString().replace(/\.\d+/, '').replaceAll(':', '-')

/** On the disk of the data folder so much stays for the journal, which would else find no room meanwhile. */
const SPARED_BYTES = 64 * 1024 * 1024

/** Says how much room the disk of a folder lacks for a copy of a store that takes so much; null where it lacks none. */
export function findLack({ pages, freePages, pageBytes }: Space, folder: string, dataFolder: string): string | null {
  const spared = statSync(folder).dev === statSync(dataFolder).dev ? SPARED_BYTES : 0
  const needed = (pages - freePages) * pageBytes + spared
  const free = freeBytesOf(folder)
  if (free >= needed) return null
  const [takes, has, lacks] = [needed, free, needed - free].map(toMebibytes)
  return `the disk is too full: it takes ${takes}, ${has} are free, ${lacks} are missing`
}

/** By the process that writes it; SQLite puts files of its own beside one that it changes. */
const PART = /\.(\d+)\.part(?:-\w+)?$/

/**
 * Makes an empty file beside `file`, for its owner alone, and removes what killed runs have left there: of the same file at once, of
 * others after a day, since other machines may write into the folder, too.
 */
export function beginPart(file: string): string {
  removeParts(dirname(file), (name, ageMs) => name === basename(file) || ageMs > DAY_MS)
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

/**
 * Removes the parts in a folder that no process of this machine writes any more.
 *
 * @param isMeant is given the name of the file that it was to be, and since when it has not changed.
 */
export function removeParts(folder: string, isMeant = (_name: string, _ageMs: number) => true): void {
  for (const part of filesIn(folder)) {
    const [ending, pid] = PART.exec(part) ?? []
    if (ending === undefined || isAlive(Number(pid))) continue
    const path = join(folder, part)
    const ageMs = Date.now() - (statOf(path)?.mtimeMs ?? 0)
    if (isMeant(part.slice(0, -ending.length), ageMs)) rmSync(path, { force: true })
  }
}

/**
 * Writes a file whole or not at all: what is there stays until then. Throws what the disk says.
 *
 * @param how its mode; `isNew`: not over another one, which is left as it is.
 */
export function putFile(path: string, text: string, { mode, isNew = false }: { mode: number; isNew?: boolean }): void {
  const part = `${path}.${process.pid}.part`
  try {
    rmSync(part, { force: true })
    writeFileSync(part, text, { mode, flag: 'wx' })
    syncPath(part)
    if (isNew) linkIfFree(part, path)
    else renameSync(part, path)
    syncPath(dirname(path))
  } finally {
    rmSync(part, { force: true })
  }
}

function linkIfFree(part: string, path: string): void {
  try {
    linkSync(part, path)
  } catch (error) {
    // Another process was first.
    if (codeOf(error) !== 'EEXIST') throw error
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

/** Says that the name of a backup is taken. */
export const exists = (path: string) =>
  new ServiceError({ kind: 'backup_exists', path }, `There is a file ${path} already.`)
