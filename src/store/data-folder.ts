/**
 * What of a data folder is this machine's alone, whatever store an installation has: the folder itself, and the lock of the server that
 * uses it. The lock, not the port, stops a second server on the same data.
 */
import { accessSync, chmodSync, constants, existsSync, lchownSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import { isLocked, lockFile } from './sqlite/lock-file.ts'

/**
 * Makes the data folder, for its owner alone, or checks that the one that is there can be written; whoever made that
 * chose its mode. Throws a ServiceError that says why not.
 */
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
    // Root may write anywhere, also where the owner asked for the opposite.
    if ((found.mode & constants.S_IWUSR) === 0) throw new Error('it cannot be written')
  } catch (cause) {
    throw new ServiceError(
      { kind: 'data_unwritable', dataFolder },
      `Cannot use ${dataFolder} as the data folder: ${reasonOf(cause)}.`,
    )
  }
}

function reasonOf(cause: unknown): string {
  const code = codeOf(cause)
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') return 'it cannot be written'
  if (code === 'EEXIST' || code === 'ENOTDIR') return 'there is a file of that name'
  return messageOf(cause)
}

/**
 * Throws a ServiceError that says why, where a command cannot look into a data folder. One that is not there has no database,
 * which is for others to say.
 */
export function requireReadable(dataFolder: string): void {
  try {
    if (!statSync(dataFolder).isDirectory()) throw new ServiceError({ kind: 'no_folder' }, `${dataFolder} is a file.`)
    accessSync(dataFolder, constants.R_OK | constants.X_OK)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'EACCES' || code === 'EPERM')
      throw new ServiceError({ kind: 'data_unreadable', dataFolder }, `This user may not look into ${dataFolder}.`)
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error
  }
}

const LOCK = 'serve.lock'

/** Takes a lock of a data folder by its name, for this process alone. Returns how it is given back; null where somebody has it. */
export const lockIn = (dataFolder: string, name: string): (() => void) | null => lockFile(join(dataFolder, name))

/** Takes the lock, or throws a ServiceError where another server has it. Returns how it is given back. */
export function takeLock(dataFolder: string): () => void {
  const unlock = lockIn(dataFolder, LOCK)
  if (unlock !== null) return unlock
  throw new ServiceError({ kind: 'already_served', dataFolder }, `Another Tollgate is serving ${dataFolder}.`)
}

/** Gives what root has made to whom a folder belongs: a server of that user could not use it otherwise. Follows no link: that user may have made it. */
export function giveToOwner(folder: string, paths: readonly string[]): void {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = statSync(folder)
  for (const path of paths) if (existsSync(path)) lchownSync(path, uid, gid)
}

/** Tells whether a server is running on this data folder, without getting in its way. */
export const isServed = (dataFolder: string): boolean => isLocked(join(dataFolder, LOCK))
