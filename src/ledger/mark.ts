/**
 * `ledger.mark`: how many requests the ledger has taken on record, in a second place. A database or a journal that is deleted,
 * or replaced by an older one, takes rows with it that nothing in it tells of; the mark does. Whoever accepts such a loss
 * deletes it: the next start begins one from what the database has. `audit.ts` reads it.
 */
import { closeSync, constants, openSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'

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
