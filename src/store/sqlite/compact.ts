/**
 * Writes a database anew, without its empty pages, so that from then on it gets shorter by itself (`prune.ts`): one that
 * an older version made cannot. It takes as long as the file is large, and room for two more of it: never done without being asked.
 */
import type { Database } from 'bun:sqlite'
import { statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { ServiceError } from '../../domain/service-error.ts'
import { takeLock } from '../data-folder.ts'
import { freeBytesOf, toMebibytes } from '../files.ts'
import { databasePath } from './files.ts'
import { readSpace } from './prune.ts'

export interface Compacted {
  before_bytes: number
  after_bytes: number
}

/**
 * Compacts the database of a data folder that no server uses. A kill in the middle leaves it as it was.
 *
 * @param sqlite an open connection to it, and the only one that is used meanwhile.
 * @throws ServiceError `already_served`; `no_room` where the disk could not hold what it takes.
 */
export function compactDatabase(sqlite: Database, dataFolder: string): Compacted {
  const unlock = takeLock(dataFolder)
  try {
    const path = databasePath(dataFolder)
    const before_bytes = statSync(path).size
    const { pages, freePages, pageBytes } = readSpace(sqlite)
    requireRoom(dataFolder, (pages - freePages) * pageBytes)
    // Takes effect with the VACUUM that follows, and only then (sqlite.org/pragma.html#pragma_auto_vacuum).
    sqlite.run('PRAGMA auto_vacuum = INCREMENTAL')
    sqlite.run('VACUUM')
    sqlite.query('PRAGMA wal_checkpoint(TRUNCATE)').get()
    return { before_bytes, after_bytes: statSync(path).size }
  } finally {
    unlock()
  }
}

/** SQLite makes a copy among the temporary files, then takes it over through the database's log. */
function requireRoom(dataFolder: string, bytes: number): void {
  const temporary =
    process.env.SQLITE_TMPDIR ?? process.env.TMPDIR ?? ['/var/tmp', tmpdir()].find(isFolder) ?? dataFolder
  const isSame = statSync(temporary).dev === statSync(dataFolder).dev
  const needed = new Map([[dataFolder, isSame ? 2 * bytes : bytes]])
  if (!isSame) needed.set(temporary, bytes)
  for (const [folder, neededBytes] of needed) {
    const freeBytes = freeBytesOf(folder)
    if (freeBytes > neededBytes) continue
    throw new ServiceError(
      { kind: 'no_room', folder },
      `This needs ${toMebibytes(neededBytes)} on the disk of ${folder}, which has ${toMebibytes(freeBytes)}.`,
    )
  }
}

const isFolder = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
