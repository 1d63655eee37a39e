/**
 * The data folder itself, and the lock of the server that uses it, for any kind of store. The lock, not the port, prevents a second server on the same data.
 */
import { accessSync, chmodSync, constants, existsSync, lchownSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import { isLocked, lockFile } from './sqlite/lock-file.ts'

/** Creates the data folder with access for its owner only, or checks that an existing one is writable. Throws a ServiceError if not. */
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
      `Cannot use ${dataFolder} as the data folder: ${reasonOf(cause)}.`,
    )
  }
}

function reasonOf(cause: unknown): string {
  const code = codeOf(cause)
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') return 'it is not writable'
  if (code === 'EEXIST' || code === 'ENOTDIR') return 'a file has that name'
  return messageOf(cause)
}

/** Throws a ServiceError if a command cannot read the data folder; a missing folder is left to others to report. */
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

/** Takes an exclusive lock by name. Returns the release function; null if it is taken. */
export const lockIn = (dataFolder: string, name: string): (() => void) | null => lockFile(join(dataFolder, name))

/** Returns the release function. Throws a ServiceError if another server has the lock. */
export function takeLock(dataFolder: string): () => void {
  const unlock = lockIn(dataFolder, LOCK)
  if (unlock !== null) return unlock
  throw new ServiceError({ kind: 'already_served', dataFolder }, `Another Tollgate is serving ${dataFolder}.`)
}

/** Gives files created by root to the folder's owner, whose server could not use them otherwise. Follows no links: the owner may have planted them. */
export function giveToOwner(folder: string, paths: readonly string[]): void {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = statSync(folder)
  for (const path of paths) if (existsSync(path)) lchownSync(path, uid, gid)
}

/** True if a server is running on this data folder; does not disturb it. */
export const isServed = (dataFolder: string): boolean => isLocked(join(dataFolder, LOCK))
