/** The data folder, and the lock that prevents a second server on it, whatever its port. */
import { accessSync, chmodSync, constants, existsSync, lchownSync, mkdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import { filesIn } from './files.ts'
import { isLocked, lockFile } from './sqlite/lock-file.ts'

/** File with the node's ID, once the folder has joined a cluster. */
export const nodeFile = (dataFolder: string) => join(dataFolder, 'node.json')

/** Creates the folder for its owner only, or checks that it is writable. Throws a ServiceError. */
export function prepareDataFolder(dataFolder: string): void {
  try {
    const made = mkdirSync(dataFolder, { recursive: true, mode: 0o700 })
    if (made !== undefined) {
      chmodSync(dataFolder, 0o700)
      return
    }
    const found = statSync(dataFolder)
    if (!found.isDirectory()) throw new Error('it is a file')
    accessSync(dataFolder, constants.W_OK | constants.X_OK)
    // Root can write anywhere, even if the owner forbade it.
    if ((found.mode & constants.S_IWUSR) === 0) throw new Error('it is not writable')
  } catch (cause) {
    throw new ServiceError(
      { kind: 'data_unwritable', dataFolder },
      `Can't use ${dataFolder} as the data folder: ${reasonOf(cause)}.`,
    )
  }
}

function reasonOf(cause: unknown): string {
  const code = codeOf(cause)
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') return 'it is not writable'
  if (code === 'EEXIST' || code === 'ENOTDIR') return 'a file has that name'
  return messageOf(cause)
}

/** Throws a ServiceError. Accepts a missing folder, which callers report. */
export function requireReadable(dataFolder: string): void {
  try {
    if (!statSync(dataFolder).isDirectory()) throw new ServiceError({ kind: 'no_folder' }, `${dataFolder} is a file.`)
    accessSync(dataFolder, constants.R_OK | constants.X_OK)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'EACCES' || code === 'EPERM')
      throw new ServiceError({ kind: 'data_unreadable', dataFolder }, `This user cannot read ${dataFolder}.`)
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error
  }
}

const LOCK = 'serve.lock'

/** Returns the release function; null if taken. */
export const lockIn = (dataFolder: string, name: string): (() => void) | null => lockFile(join(dataFolder, name))

/** Returns the release function. Throws a ServiceError if taken. */
export function takeLock(dataFolder: string): () => void {
  const unlock = lockIn(dataFolder, LOCK)
  if (unlock !== null) return unlock
  throw new ServiceError({ kind: 'already_served', dataFolder }, `Another Tollgate server is using ${dataFolder}.`)
}

const JOURNAL = 'journal'
const DRAINING = '.draining'
const drainingFile = (dataFolder: string, instance: string) => join(dataFolder, JOURNAL, `${instance}${DRAINING}`)

/**
 * Held by a process that only writes its journal: a worker, or a server that has handed over and finishes its
 * requests. Returns the release function; null if another process has it.
 */
export function takeDrainingLock(dataFolder: string, instance: string): (() => void) | null {
  mkdirSync(join(dataFolder, JOURNAL), { recursive: true, mode: 0o700 })
  const file = drainingFile(dataFolder, instance)
  const unlock = lockFile(file)
  if (unlock === null || existsSync(file)) return unlock
  // Another process removed the file before it was locked, because it had no holder.
  unlock()
  return lockFile(file)
}

/** Running instances that only write their journal. */
export const listDraining = (dataFolder: string): string[] =>
  filesIn(join(dataFolder, JOURNAL))
    .filter((name) => name.endsWith(DRAINING) && isLocked(join(dataFolder, JOURNAL, name)))
    .map((name) => name.slice(0, -DRAINING.length))

export const isDraining = (dataFolder: string, instance: string): boolean =>
  existsSync(drainingFile(dataFolder, instance)) && isLocked(drainingFile(dataFolder, instance))

export const removeDrainingLock = (dataFolder: string, instance: string): void =>
  rmSync(drainingFile(dataFolder, instance), { force: true })

/** Removes lock files of instances that have ended. */
export function removeDrainingLocks(dataFolder: string): void {
  const living = new Set(listDraining(dataFolder))
  for (const name of filesIn(join(dataFolder, JOURNAL)))
    if (name.endsWith(DRAINING) && !living.has(name.slice(0, -DRAINING.length)))
      rmSync(join(dataFolder, JOURNAL, name), { force: true })
}

/** To replace the database: no server may write to the journal either. Returns the release function. Throws a ServiceError if taken. */
export function takeWholeFolder(dataFolder: string): () => void {
  const unlock = takeLock(dataFolder)
  if (listDraining(dataFolder).length === 0) return unlock
  unlock()
  throw new ServiceError(
    { kind: 'already_served', dataFolder },
    `The server from before the last restart still finishes its requests in ${dataFolder}.`,
  )
}

/** Gives files created by root to the folder's owner, who could not use them. Follows no links: the owner may have planted them. */
export function giveToOwner(folder: string, paths: readonly string[]): void {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = statSync(folder)
  for (const path of paths) if (existsSync(path)) lchownSync(path, uid, gid)
}

/** Does not disturb the server. */
export const isServed = (dataFolder: string): boolean => isLocked(join(dataFolder, LOCK))
