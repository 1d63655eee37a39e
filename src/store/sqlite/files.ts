/** Names and headers of a database's files. Keep it small: every start loads it. */
import { closeSync, openSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { StoreFiles } from '../store.ts'

const MAIN = 'tollgate.db'

export const FILES: StoreFiles = { main: MAIN, log: `${MAIN}-wal`, sidecars: [`${MAIN}-wal`, `${MAIN}-shm`] }

export const databasePath = (dataFolder: string) => join(dataFolder, MAIN)

const HEADER_BYTES = 32
const MAGIC = 'SQLite format 3\0'

/** https://sqlite.org/fileformat2.html, 1.3; null for other files. Throws the system's error. */
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
 * Returns a check whether the open files are still in the folder: deleted files keep accepting writes. In WAL mode, side files stay the same.
 * @param onLog gets the log's size.
 */
export function watchFiles(path: string, onLog: (bytes: number) => void): () => boolean {
  const log = `${path}-wal`
  const files = [path, log, `${path}-shm`].map((each) => ({ path: each, id: identify(each).id }))
  let bytes = 0
  return () => {
    if (!files.every(({ path, id }) => identify(path).id === id)) return false
    const { size } = identify(path)
    // It shrinks when free pages are returned.
    if (size < bytes && (size === 0 || size < bytesByHeader(path))) return false
    bytes = size
    onLog(identify(log).size)
    return true
  }
}

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
