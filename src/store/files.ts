/** Atomic file writes, and disk space. Parts left by a kill or a full disk are removed later. */
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

/** Survives a power failure, also with a folder's entries. */
export function syncPath(path: string): void {
  const file = openSync(path, 'r')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

export function freeBytesOf(folder: string): number {
  const { bavail, bsize } = statfsSync(folder)
  return bavail * bsize
}

/** Such as `12 MiB`, rounded up. */
const toMebibytes = (bytes: number): string => `${Math.ceil(bytes / 1024 ** 2)} MiB`

/** Sorted; empty if missing or unreadable. */
export function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder).sort()
  } catch {
    return []
  }
}

/** Scheduled backups, copies from before migrations, and replaced databases. */
export const BACKUPS = 'backups'

/** `2027-01-31T12-00-00Z`. */
export const toStamp = (ms: number) => new Date(ms).toISOString().replace(/\.\d+/, '').replaceAll(':', '-')

/** Disk space left free for the journal. */
export const SPARED_BYTES = 64 * 1024 * 1024

/** null if there is enough space. */
export function findLack({ pages, freePages, pageBytes }: Space, folder: string, dataFolder: string): string | null {
  const spared = statSync(folder).dev === statSync(dataFolder).dev ? SPARED_BYTES : 0
  const needed = (pages - freePages) * pageBytes + spared
  const free = freeBytesOf(folder)
  if (free >= needed) return null
  const [takes, has, lacks] = [needed, free, needed - free].map(toMebibytes)
  return `not enough disk space: ${takes} needed, ${has} free, ${lacks} missing`
}

/** Named after the process. SQLite adds other files. */
const PART = /\.(\d+)\.part(?:-\w+)?$/

/**
 * Creates an empty part next to `file`, for its owner only, and removes old parts: of the same file at once, of others after a day, since other machines may
 * write there too.
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
 * Removes parts without a live process.
 * @param isMeant gets the final name, and the time since the last change.
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
 * Atomic. Throws the system's error.
 * @param how `isNew`: keep an existing file.
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
    // Another process has created the file first.
    if (codeOf(error) !== 'EEXIST') throw error
  }
}

/** Throws a ServiceError if the name is taken. */
export function finishPart(part: string, file: string, force: boolean): void {
  syncPath(part)
  if (force) renameSync(part, file)
  else takeName(part, file)
  syncPath(dirname(file))
}

/** A link fails if the name is taken, unlike a rename; not every file system has links. */
function takeName(part: string, file: string): void {
  try {
    linkSync(part, file)
    rmSync(part)
  } catch (error) {
    if (codeOf(error) === 'EEXIST' || statOf(file)) throw exists(file)
    renameSync(part, file)
  }
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return codeOf(error) === 'EPERM'
  }
}

const statOf = (path: string) => statSync(path, { throwIfNoEntry: false })

export const unwritable = (path: string, why: string) =>
  new ServiceError({ kind: 'backup_unwritable', path }, `Can't write a backup to ${path}: ${why}.`)

export const exists = (path: string) => new ServiceError({ kind: 'backup_exists', path }, `${path} already exists.`)

export const noRoom = (folder: string, neededBytes: number) =>
  new ServiceError(
    { kind: 'no_room', folder },
    `Not enough disk space in ${folder}: ${toMebibytes(neededBytes)} needed, ${toMebibytes(freeBytesOf(folder))} free.`,
  )
