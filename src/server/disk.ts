/**
 * How much of the disk the data folder takes, and when it will be full: by what it has grown in the last week, as measured once a
 * day. So all that grows is in it (database, journal, backups, logs), and what retention takes away. `disk-watch.ts` and `doctor`
 * measure and ask here.
 */
import { lstat, readdir, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { DiskState } from '../documents/server.ts'
import { codeOf } from '../domain/error.ts'
import { DAY_MS } from '../domain/time.ts'
import { SEGMENT_BYTES } from '../ledger/journal.ts'
import type { Space } from '../store/ledger-store.ts'

/** What the forecast goes by. */
const HISTORY_DAYS = 7
/** Full within so many days is soon. */
const SOON_DAYS = 7
/** Of a budget, what is left when it is nearly used up. */
const LEAST_PART = 0.05
/** What is ready of the journal beside what is being written: without it a full disk would end in refusals. */
export const LEAST_FREE_BYTES = 2 * SEGMENT_BYTES

/** What a day began with: all in the data folder but pages of the database that hold nothing. */
export interface DaySize {
  at_ms: number
  bytes: number
}

export interface Measured {
  /** Of all files in the data folder. A file with several names counts once; links are not followed. */
  usedBytes: number
  /** Part of it that is used again before anything grows: free pages of the database. */
  reusableBytes: number
  /** What the file system has left for this user. */
  freeBytes: number
}

/** Measures off the event loop. Throws what the system says of the folder itself. */
export async function measureDisk(dataFolder: string, space: Space | null): Promise<Measured> {
  const [usedBytes, { bavail, bsize }] = await Promise.all([sizeIn(dataFolder, new Set()), statfs(dataFolder)])
  const reusableBytes = space === null ? 0 : space.freePages * space.pageBytes
  return { usedBytes, reusableBytes, freeBytes: bavail * bsize }
}

async function sizeIn(folder: string, counted: Set<string>): Promise<number> {
  let bytes = 0
  for (const name of await readdir(folder)) bytes += await sizeOf(join(folder, name), counted)
  return bytes
}

/** 0 for what has just been removed. @param counted files with several names that were seen. */
async function sizeOf(path: string, counted: Set<string>): Promise<number> {
  try {
    const found = await lstat(path)
    if (found.isDirectory()) return await sizeIn(path, counted)
    if (!found.isFile()) return 0
    const id = `${found.dev} ${found.ino}`
    if (counted.has(id)) return 0
    if (found.nlink > 1) counted.add(id)
    return found.size
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return 0
    throw error
  }
}

/** Reads what `disk_history` holds; none of it where it is not ours. */
export function toDaySizes(text: string | null): DaySize[] {
  try {
    const found: unknown = JSON.parse(text ?? '[]')
    return Array.isArray(found) ? found.filter(isDaySize) : []
  } catch {
    return []
  }
}

const isDaySize = (entry: unknown): entry is DaySize =>
  typeof entry === 'object' &&
  entry !== null &&
  'at_ms' in entry &&
  'bytes' in entry &&
  Number.isFinite(entry.at_ms) &&
  Number.isFinite(entry.bytes)

const dayOf = (ms: number) => Math.floor(ms / DAY_MS)

/** Adds what was measured, once a day, and forgets what is older than a week or later than now. Null where today is there already. */
export function addToHistory(history: readonly DaySize[], measured: Measured, nowMs: number): DaySize[] | null {
  const known = history.filter(({ at_ms }) => at_ms <= nowMs && dayOf(nowMs) - dayOf(at_ms) <= HISTORY_DAYS)
  if (known.some(({ at_ms }) => dayOf(at_ms) === dayOf(nowMs))) return null
  return [...known, { at_ms: nowMs, bytes: netOf(measured) }]
}

const netOf = ({ usedBytes, reusableBytes }: Measured) => usedBytes - reusableBytes

/** Pure. @param budgetBytes null = none. */
export function toDiskState(
  measured: Measured,
  history: readonly DaySize[],
  budgetBytes: number | null,
  nowMs: number,
): DiskState {
  const { usedBytes, reusableBytes, freeBytes } = measured
  const budgetLeft = budgetBytes === null ? Number.POSITIVE_INFINITY : budgetBytes - usedBytes
  const growth = toGrowth(measured, history, nowMs)
  const left = Math.max(0, Math.min(freeBytes, budgetLeft) + reusableBytes)
  const days = growth !== null && growth > 0 ? left / growth : null
  const isFull = freeBytes < LEAST_FREE_BYTES || budgetLeft <= 0
  const isNear = (days ?? Number.POSITIVE_INFINITY) <= SOON_DAYS || left < (budgetBytes ?? 0) * LEAST_PART
  return {
    state: isFull ? 'full' : isNear ? 'filling' : 'ok',
    used_bytes: usedBytes,
    reusable_bytes: reusableBytes,
    free_bytes: freeBytes,
    budget_bytes: budgetBytes,
    growth_bytes_per_day: growth,
    days_left: days === null ? null : Math.floor(days),
  }
}

/** Bytes a day since the oldest day of the last week. */
function toGrowth(measured: Measured, history: readonly DaySize[], nowMs: number): number | null {
  const past = history.filter(({ at_ms }) => nowMs - at_ms >= DAY_MS && dayOf(nowMs) - dayOf(at_ms) <= HISTORY_DAYS)
  const [first] = past.sort((a, b) => a.at_ms - b.at_ms)
  return first === undefined ? null : Math.round(((netOf(measured) - first.bytes) / (nowMs - first.at_ms)) * DAY_MS)
}
