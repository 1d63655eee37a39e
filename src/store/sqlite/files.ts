/** The files of a database in a data folder, by their names and their first bytes. Light: every start loads it. */
import { closeSync, openSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { StoreFiles } from '../store.ts'

const MAIN = 'tollgate.db'

export const FILES: StoreFiles = { main: MAIN, log: `${MAIN}-wal`, beside: [`${MAIN}-wal`, `${MAIN}-shm`] }

/** Path of the database in a data folder. */
export const databasePath = (dataFolder: string) => join(dataFolder, MAIN)

const HEADER_BYTES = 32
const MAGIC = 'SQLite format 3\0'

/** What a database begins with (https://sqlite.org/fileformat2.html, 1.3); null where it does not. Throws what the system says. */
export function readHeader(path: string): Buffer | null {
  const file = openSync(path, 'r')
  try {
    const header = Buffer.alloc(HEADER_BYTES)
    readSync(file, header)
    return header.toString('latin1', 0, MAGIC.length) === MAGIC ? header : null
  } finally {
    closeSync(file)
  }
}

/**
 * Looks whether the files of an open database are still those that its folder shows: one that was deleted or replaced goes on taking what
 * is written to it. The database is in WAL mode: its side files stay the same for as long as it is open.
 *
 * @param onLog hears how large the log is at each look that finds all there.
 */
export function watchFiles(path: string, onLog: (bytes: number) => void): () => boolean {
  const log = `${path}-wal`
  const files = [path, log, `${path}-shm`].map((each) => ({ path: each, id: identify(each).id }))
  /** What it was when it was last seen whole. */
  let bytes = 0
  return () => {
    if (!files.every(({ path, id }) => identify(path).id === id)) return false
    const { size } = identify(path)
    // It gets shorter where free pages are given back.
    if (size < bytes && (size === 0 || size < bytesByHeader(path))) return false
    bytes = size
    onLog(identify(log).size)
    return true
  }
}

/** What a database says itself to be long. */
function bytesByHeader(path: string): number {
  const header = readHeader(path)
  if (header === null) return Number.POSITIVE_INFINITY
  const pageBytes = header.readUInt16BE(16)
  return header.readUInt32BE(28) * (pageBytes === 1 ? 65_536 : pageBytes)
}

function identify(path: string): { id: string; size: number } {
  const found = statSync(path, { throwIfNoEntry: false })
  return { id: found ? `${found.dev} ${found.ino}` : 'none', size: found?.size ?? 0 }
}
