/** What each model server was seen to take of the machine's memory, kept over restarts in a file of the data folder. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Log } from '../log.ts'

export interface MeasuredMemory {
  /** In bytes, the most that was seen; null where nothing was. By the hash of a process: another command may have another model. */
  get(hash: string): number | null
  note(hash: string, bytes: number): void
}

/** Less than that much more is not worth writing. */
const STEP = 1.02
/** Of commands that were once in use. */
const MOST_KEPT = 200

export function readMeasured(path: string, log: Pick<Log, 'warn'>): MeasuredMemory {
  const known = new Map(read(path))
  return {
    get: (hash) => known.get(hash) ?? null,
    note(hash, bytes) {
      if (bytes <= (known.get(hash) ?? 0) * STEP) return
      known.delete(hash)
      known.set(hash, bytes)
      for (const [oldest] of known.entries().take(Math.max(0, known.size - MOST_KEPT))) known.delete(oldest)
      try {
        mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
        writeFileSync(`${path}.new`, JSON.stringify(Object.fromEntries(known)), { mode: 0o600 })
        renameSync(`${path}.new`, path)
      } catch (error) {
        log.warn('process_memory_unkept', 'what a model server takes of the memory could not be written down', {
          error: String(error),
        })
      }
    },
  }
}

function read(path: string): [string, number][] {
  try {
    const json: unknown = JSON.parse(readFileSync(path, 'utf8'))
    return Object.entries(json ?? {}).filter((entry): entry is [string, number] => Number.isSafeInteger(entry[1]))
  } catch {
    // None yet, or of no use: it is measured again.
    return []
  }
}
