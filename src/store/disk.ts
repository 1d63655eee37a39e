/** What a store and its copies ask of the disk below them. */
import { closeSync, fsyncSync, openSync, readdirSync, statfsSync } from 'node:fs'

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
