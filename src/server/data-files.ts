/**
 * Whether the files that a server writes are still those that its data folder shows. A file that was deleted or replaced goes
 * on taking what is written to it, and all of that is gone at the next start: so the server looks every so often, and refuses
 * what it could not record. `storage.ts` starts it.
 */
import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs'
import type { Log } from '../log.ts'
import { databasePath } from '../store/sqlite/open.ts'

const LOOK_MS = 250

export interface DataFiles {
  /** What is no longer there as it was, since the last look; null where all of it is. With the journal, outcomes have no place either. */
  readonly lost: 'database' | 'journal' | null
  /** Looks now, and tells whether all is there. */
  look(): boolean
  stop(): void
}

export interface DataFilesDeps {
  dataFolder: string
  journal: { isThere(): boolean }
  /** Called with the size of the database's WAL at each look that finds all there. */
  onWal?(bytes: number): void
  log: Log
}

/** Begins to look. The database is open, and in WAL mode: its side files stay the same for as long as it is. */
export function watchDataFiles({ dataFolder, journal, onWal, log }: DataFilesDeps): DataFiles {
  const path = databasePath(dataFolder)
  const files = ['', '-wal', '-shm'].map((ending) => ({ path: `${path}${ending}`, ...identify(`${path}${ending}`) }))
  /** What it was when it was last seen whole. */
  let bytes = 0

  const isDatabaseThere = () => {
    if (!files.every(({ path, id }) => identify(path).id === id)) return false
    const { size } = identify(path)
    const isWhole = size >= bytes || (size > 0 && size >= bytesByHeader(path))
    if (isWhole) bytes = size
    return isWhole
  }

  const look = (): boolean => {
    const before = watched.lost
    const lost = !journal.isThere() ? 'journal' : isDatabaseThere() ? null : 'database'
    watched.lost = lost
    if (lost === null) onWal?.(identify(`${path}-wal`).size)
    if (lost === before) return lost === null
    if (lost === null) log.info('data_found', 'the data folder is as it was; requests are taken again')
    else if (before === null)
      log.error(
        'data_lost',
        `the ${existsSync(dataFolder) ? lost : 'data folder'} was removed, replaced or emptied while this server uses it: new requests are refused, since nothing of them could be kept. Stop the server, put the data folder back as it was or restore a backup, and start it again`,
        { data: dataFolder },
      )
    return lost === null
  }

  const timer = setInterval(look, LOOK_MS)
  // Plain, since every request asks what is lost.
  const watched = { lost: null as DataFiles['lost'], look, stop: () => clearInterval(timer) }
  look()
  return watched
}

/** What a database says itself to be long (sqlite.org/fileformat2, 1.3): it gets shorter where free pages are given back. */
function bytesByHeader(path: string): number {
  const header = Buffer.alloc(32)
  const file = openSync(path, 'r')
  try {
    if (readSync(file, header, 0, header.length, 0) < header.length) return Number.POSITIVE_INFINITY
  } finally {
    closeSync(file)
  }
  if (header.toString('latin1', 0, 15) !== 'SQLite format 3') return Number.POSITIVE_INFINITY
  const pageBytes = header.readUInt16BE(16)
  return header.readUInt32BE(28) * (pageBytes === 1 ? 65_536 : pageBytes)
}

function identify(path: string): { id: string; size: number } {
  const found = statSync(path, { throwIfNoEntry: false })
  return { id: found ? `${found.dev} ${found.ino}` : 'none', size: found?.size ?? 0 }
}
