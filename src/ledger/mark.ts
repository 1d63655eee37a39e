/**
 * Detects lost rows: `ledger.mark` counts recorded requests in a second place, because a deleted or older database or journal does not show what is missing.
 * To accept a loss, delete the file. The next start creates it from the database. If the database itself is missing, the server doesn't start.
 */
import { closeSync, constants, openSync, readFileSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { count } from '../domain/text.ts'
import { storeOf } from '../store/open.ts'
import { JOURNALS, listSegments, readSegment } from './journal-file.ts'

const NAME = 'ledger.mark'
/** JSON of fixed length, so that each write replaces the previous one. */
const BEFORE = '{"requests":'
const DIGITS = 16
const AFTER = '}\n'

export interface Mark {
  /** A kill before this leaves the count too low; the next start corrects it. */
  add(requests: number): void
  close(): void
}

/** Null if missing or unreadable. */
export function readMark(dataFolder: string): number | null {
  try {
    const { requests }: { requests?: unknown } = JSON.parse(readFileSync(join(dataFolder, NAME), 'utf8'))
    return Number.isSafeInteger(requests) ? Number(requests) : null
  } catch {
    return null
  }
}

/**
 * Continues or creates the mark of a folder.
 *
 * @param known requests in the database.
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
      // The mark may fall behind.
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

/** Null on a full disk, which must not prevent a start. */
function openFile(path: string): number | null {
  try {
    return openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  } catch {
    return null
  }
}

/** Error message for an administrator; null if nothing was lost. */
export function findLost(dataFolder: string): string | null {
  const { main, log } = storeOf(dataFolder).files
  const path = join(dataFolder, main)
  const size = sizeOf(path)
  if (size !== null && size > 0) return null
  const left: string[] = []
  if ((sizeOf(join(dataFolder, log)) ?? 0) > 0) left.push(`${log} (latest changes)`)
  for (const folder of JOURNALS) {
    const records = listSegments(join(dataFolder, folder)).reduce((sum, each) => sum + readSegment(each).length, 0)
    if (records > 0) left.push(`${folder}/ (${count(records, 'ledger record')})`)
  }
  const counted = readMark(dataFolder) ?? 0
  if (counted > 0) left.push(`ledger.mark (counts ${count(counted, 'request')})`)
  if (left.length === 0) return null
  return `${path} ${size === null ? 'is missing' : 'is empty'}, but its folder still holds ${left.join(', ')}: the database was removed or emptied. Restore it or a backup. To start with a new database, move those files away first.`
}

/** Bytes; null if missing. */
export const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? null
