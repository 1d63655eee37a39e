/**
 * Rewrites a database without free pages, so that it can shrink automatically (`prune.ts`). Takes long, and twice the file's size in free space, so only on
 * request.
 */
import type { Database } from 'bun:sqlite'
import { statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { takeLock } from '../data-folder.ts'
import { freeBytesOf, noRoom } from '../files.ts'
import { databasePath } from './files.ts'
import { readSpace } from './prune.ts'

export interface Compacted {
  before_bytes: number
  after_bytes: number
}

/**
 * A kill leaves it unchanged.
 * @param sqlite the only connection in use.
 * @throws ServiceError `already_served`, `no_room`.
 */
export function compactDatabase(sqlite: Database, dataFolder: string): Compacted {
  const unlock = takeLock(dataFolder)
  try {
    const path = databasePath(dataFolder)
    const before_bytes = statSync(path).size
    const { pages, freePages, pageBytes } = readSpace(sqlite)
    requireRoom(dataFolder, (pages - freePages) * pageBytes)
    // Takes effect only with the VACUUM that follows (sqlite.org/pragma.html#pragma_auto_vacuum).
    sqlite.run('PRAGMA auto_vacuum = INCREMENTAL')
    sqlite.run('VACUUM')
    sqlite.query('PRAGMA wal_checkpoint(TRUNCATE)').get()
    return { before_bytes, after_bytes: statSync(path).size }
  } finally {
    unlock()
  }
}

/** SQLite copies to a temporary file, and then back through the WAL. */
function requireRoom(dataFolder: string, bytes: number): void {
  const temporary =
    process.env.SQLITE_TMPDIR ?? process.env.TMPDIR ?? ['/var/tmp', tmpdir()].find(isFolder) ?? dataFolder
  const isSame = statSync(temporary).dev === statSync(dataFolder).dev
  const needed = new Map([[dataFolder, isSame ? 2 * bytes : bytes]])
  if (!isSame) needed.set(temporary, bytes)
  for (const [folder, neededBytes] of needed) {
    if (freeBytesOf(folder) <= neededBytes) throw noRoom(folder, neededBytes)
  }
}

const isFolder = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
