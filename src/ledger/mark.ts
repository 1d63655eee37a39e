/**
 * What tells that rows are lost. `ledger.mark` counts the requests that the ledger has taken on record, in a second place: a database or a
 * journal that is deleted, or replaced by an older one, takes rows with it that nothing in it tells of; the mark does. Whoever accepts
 * such a loss deletes it: the next start begins one from what the database has. And where the database itself is gone, a start refuses.
 */
import { closeSync, constants, openSync, readFileSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { count } from '../domain/text.ts'
import { storeOf } from '../store/open.ts'
import { JOURNALS, listSegments, readSegment } from './journal-file.ts'

const NAME = 'ledger.mark'
/** JSON with room for any number, so that each write covers the one before. */
const BEFORE = '{"requests":'
const DIGITS = 16
const AFTER = '}\n'

export interface Mark {
  /** Counts requests that were recorded just now. A kill before that makes the mark fall short, and the next start mends it. */
  add(requests: number): void
  close(): void
}

/** The requests that the mark of a folder counts; null where it has none that can be read. */
export function readMark(dataFolder: string): number | null {
  try {
    const { requests }: { requests?: unknown } = JSON.parse(readFileSync(join(dataFolder, NAME), 'utf8'))
    return Number.isSafeInteger(requests) ? Number(requests) : null
  } catch {
    return null
  }
}

/**
 * Goes on from the mark of a folder, or begins one.
 *
 * @param known requests that the database has.
 */
export function openMark(dataFolder: string, known: number): Mark {
  let requests = Math.max(known, readMark(dataFolder) ?? 0)
  let file = openFile(join(dataFolder, NAME))
  const text = Buffer.from(`${BEFORE}${' '.repeat(DIGITS)}${AFTER}`)
  const write = () => {
    if (file === null) return
    const digits = String(requests)
    text.write(digits, BEFORE.length + DIGITS - digits.length, 'latin1')
    try {
      writeSync(file, text, 0, text.length, 0)
    } catch {
      // A second place may fall behind the first.
    }
  }
  write()
  return {
    add(count) {
      requests += count
      write()
    },
    close() {
      if (file !== null) closeSync(file)
      file = null
    },
  }
}

/** Null where a full disk takes no new file: a second place is worth no start. */
function openFile(path: string): number | null {
  try {
    return openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  } catch {
    return null
  }
}

/** The sentence for an administrator; null where nothing was lost. */
export function findLost(dataFolder: string): string | null {
  const { main, log } = storeOf(dataFolder).files
  const path = join(dataFolder, main)
  const size = sizeOf(path)
  if (size !== null && size > 0) return null
  const left: string[] = []
  if ((sizeOf(join(dataFolder, log)) ?? 0) > 0) left.push(`${log}, with its last changes`)
  for (const folder of JOURNALS) {
    const records = listSegments(join(dataFolder, folder)).reduce((sum, each) => sum + readSegment(each).length, 0)
    if (records > 0) left.push(`${folder}/, with ${count(records, 'ledger record')}`)
  }
  const counted = readMark(dataFolder) ?? 0
  if (counted > 0) left.push(`ledger.mark, which counts ${count(counted, 'request')}`)
  if (left.length === 0) return null
  return `${path} ${size === null ? 'is missing' : 'is empty'}, but its folder still holds ${left.join('; ')}: the database was removed or emptied. Put it back, or restore a backup of it; to begin with a new one, move those away first.`
}

/** In bytes; null where there is no such file. */
export const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? null
