/**
 * Write-ahead journal of ledger records in segments `journal/<instance>-<n>.log`, each removed once a checkpoint covers it. A limited number of records stays
 * in memory; others are read back from the file.
 */
import { rmSync } from 'node:fs'
import { basename } from 'node:path'
import type { Log } from '../log.ts'
import type { LedgerRecord } from '../store/ledger-rows.ts'
import type { Rejected } from '../store/ledger-store.ts'
import type { Cursor } from './cursor.ts'
import { Lines, setAside, toHead } from './journal-file.ts'
import { appendLines, createSpare, isThere, readRecords, removeSegment, type Segment, timeOfRecord } from './segment.ts'

export const SEGMENT_BYTES = 8 * 1024 * 1024
const MAX_IN_MEMORY = 20_000
/** Upper bound of a new request's row: its texts are limited. */
const MAX_ROW_BYTES = 8 * 1024

export interface Journal {
  /** Writes the records that fit, in one write, and returns the rest. The last quarter is reserved for outcomes. */
  append<T extends { record: LedgerRecord }>(group: readonly T[]): T[]
  /** Resolves once all records survive a power failure. Throws the system's error. */
  sync(): Promise<void>
  /** Prepares an empty spare segment; null if not possible now. */
  grow(): Promise<void> | null
  /** True if a new request would not fit, now or shortly. */
  isFull(): boolean
  /** False if its files were deleted or replaced. */
  isThere(): boolean
  /** The oldest unapplied records, at most `limit`; call `done` once they are applied. */
  take(limit: number): { records: LedgerRecord[]; done(): void } | null
  waiting(): number
  unapplied(): Generator<LedgerRecord>
  /**
   * Removes fully applied segments once `checkpoint` resolves true. Removes the current one only if it has records of requests before `beforeMs`, or if nothing
   * else frees space.
   */
  release(checkpoint: () => Promise<boolean>, beforeMs?: number): Promise<void>
  /**
   * Creation time of the oldest request with a record in a file, ms; Infinity if none. A start applies all records again. So their rows must not be deleted
   * before the files, or the requests would count twice.
   */
  oldestMs(): number
  hasApplied(): boolean
  /** Saves a rejected record in `<instance>.rejected`. Throws the system's error. */
  setAside(rejected: Rejected): void
  /** Keeps only unapplied segments. If no checkpoint covers the others, keeps all segments with records. */
  close(isCovered: boolean): Promise<void>
}

export interface JournalOptions {
  folder: string
  instance: string
  schema: string
  log: Log
  /** Disk space for all segments. */
  maxBytes: number
  segmentBytes?: number
  maxInMemory?: number
  /** Segments of earlier runs, already applied: removed at the next checkpoint. */
  inherited?: readonly string[]
  /** Cursors of consumers besides `take`. */
  cursors?: readonly Cursor[]
  /** True if records wait for `take`. Otherwise only the cursors count. */
  isTaken?: boolean
  /** Gets the names of segments that are removed or emptied. */
  onRemoved?(segment: string): void
}

export function createJournal(options: JournalOptions): Journal {
  const { folder, instance, log, maxBytes, segmentBytes = SEGMENT_BYTES, maxInMemory = MAX_IN_MEMORY } = options
  const { cursors = [], isTaken = true, onRemoved } = options
  const head = Buffer.from(toHead(options.schema))
  /** The lines of one write. */
  const lines = new Lines()
  /** Full segments first, the current one last. */
  const segments: Segment[] = []
  const unsynced = new Set<Segment>()
  const inherited = [...(options.inherited ?? [])]
  let releasing: Promise<void> | null = null
  /** Segments being removed, whose records may still be on disk, permanently if the removal fails. */
  const leaving = new Set<Segment>()
  const sumOf = (count: (segment: Segment) => number) => segments.reduce((sum, each) => sum + count(each), 0)
  const usedBytes = () => sumOf(({ bytes }) => bytes)
  const spare = createSpare({ folder, instance, head, segmentBytes, maxBytes, usedBytes, log })

  const active = () => segments.at(-1)
  const free = () => {
    const segment = active()
    return segment ? segment.bytes - segment.used : 0
  }
  const takesNew = (bytes: number) => bytes <= free() - (spare.segment ? 0 : (active()?.bytes ?? 0) / 4)
  const hasRoom = ({ kind }: LedgerRecord, bytes: number) => (kind === 'settle' ? bytes <= free() : takesNew(bytes))
  const isStuck = () => spare.isMissing && !takesNew(MAX_ROW_BYTES)
  const isApplied = ({ path, waiting }: Segment) =>
    waiting === 0 && cursors.every((cursor) => cursor.hasPassed(basename(path)))
  /** Includes the current one only if nothing else frees space. */
  const applied = (beforeMs = 0) =>
    segments.filter((each) => isApplied(each) && (each !== active() || each.oldestMs < beforeMs || isStuck()))

  const write = (segment: Segment, bytes: Uint8Array, records: readonly LedgerRecord[]): boolean => {
    const at = segment.used
    try {
      appendLines(segment, bytes)
    } catch (error) {
      log.error('journal_failed', 'cannot write to the journal', { error: String(error) })
      return false
    }
    for (const record of records) segment.oldestMs = Math.min(segment.oldestMs, timeOfRecord(record))
    unsynced.add(segment)
    for (const cursor of cursors) cursor.wrote(basename(segment.path), segment.used, records.length, performance.now())
    if (isTaken) remember(segment, at, records)
    // Prepares the next segment early: on a full disk only the last quarter remains.
    if (segment.used > segment.bytes / 2) void spare.grow()
    return true
  }

  const remember = (segment: Segment, at: number, records: readonly LedgerRecord[]) => {
    segment.waiting += records.length
    const isTooMuch = sumOf(({ inMemory }) => inMemory.length) + records.length > maxInMemory
    if (segment.readFrom !== null || isTooMuch) segment.readFrom ??= at
    else for (const record of records) segment.inMemory.push(record)
  }

  /** Throws the system's error, and keeps remaining segments. */
  const removeInherited = () => {
    for (let path = inherited[0]; path !== undefined; path = inherited[0]) {
      rmSync(path, { force: true })
      inherited.shift()
    }
  }

  const releaseAll = async (checkpoint: () => Promise<boolean>, beforeMs = 0) => {
    const covered = applied(beforeMs).map((segment) => ({ segment, used: segment.used }))
    if (covered.length + inherited.length === 0 || !(await checkpoint())) return
    removeInherited()
    for (const { segment, used } of covered) {
      // The checkpoint doesn't cover records added since.
      if (segment.used !== used || !applied(beforeMs).includes(segment)) continue
      const isWritten = segment === active()
      segments.splice(segments.indexOf(segment), 1)
      unsynced.delete(segment)
      leaving.add(segment)
      const isSmall = segment.bytes < segmentBytes && !spare.hasFailed && !isWritten
      // On a full disk, reuse the file before others take its space.
      if (spare.isMissing && !isSmall) await spare.reuse(segment)
      else await removeSegment(segment)
      leaving.delete(segment)
      for (const cursor of cursors) cursor.removed(basename(segment.path))
      onRemoved?.(basename(segment.path))
    }
  }

  return {
    grow: spare.grow,
    isThere: () => (spare.segment === null || isThere(spare.segment)) && segments.every(isThere),
    isFull: () => isStuck() && (spare.hasFailed || spare.isAtLimit()),
    append<T extends { record: LedgerRecord }>(group: readonly T[]): T[] {
      const rest: T[] = []
      let part: T[] = []
      lines.clear()
      const flush = () => {
        const segment = active()
        const records = part.map(({ record }) => record)
        if (segment && part.length > 0 && !write(segment, lines.bytes, records)) rest.push(...part)
        part = []
        lines.clear()
      }
      for (const entry of group) {
        const { record } = entry
        let from = lines.length
        lines.add(record)
        const next = spare.segment
        if (!hasRoom(record, lines.length) && next && lines.length - from <= next.bytes - head.length) {
          lines.length = from
          flush()
          spare.take()
          segments.push(next)
          from = 0
          lines.add(record)
        }
        if (hasRoom(record, lines.length)) part.push(entry)
        else {
          rest.push(entry)
          lines.length = from
        }
      }
      flush()
      return rest
    },
    async sync() {
      const written = [...unsynced]
      unsynced.clear()
      await Promise.all(written.map(({ handle }) => handle.datasync()))
    },
    take(limit) {
      const segment = segments.find(({ waiting }) => waiting > 0)
      if (!segment) return null
      const { handle, inMemory, readFrom, used } = segment
      const isRead = inMemory.length === 0 && readFrom !== null
      const { records, next } = isRead
        ? readRecords(handle.fd, readFrom, used, limit)
        : { records: inMemory.slice(0, limit), next: readFrom }
      return {
        records,
        done() {
          segment.waiting -= records.length
          if (!isRead) return void inMemory.splice(0, records.length)
          segment.readFrom = next !== null && next < segment.used ? next : null
          // Unreadable lines count as applied.
          if (segment.readFrom === null) segment.waiting = 0
        },
      }
    },
    waiting: () => sumOf(({ waiting }) => waiting),
    *unapplied() {
      for (const { handle, used, inMemory, readFrom } of segments) {
        yield* inMemory
        for (let at = readFrom ?? used; at < used; ) {
          const { records, next } = readRecords(handle.fd, at, used, 1_000)
          yield* records
          at = next
        }
      }
    },
    hasApplied: () => applied().length + inherited.length > 0,
    oldestMs: () =>
      inherited.length > 0
        ? 0
        : [...segments, ...leaving].reduce((oldest, each) => Math.min(oldest, each.oldestMs), Number.POSITIVE_INFINITY),
    release(checkpoint, beforeMs) {
      releasing ??= releaseAll(checkpoint, beforeMs).finally(() => {
        releasing = null
      })
      return releasing
    },
    setAside: (rejected) => setAside(folder, instance, rejected, log),
    async close(isCovered) {
      spare.stop()
      await releasing
      await spare.settled()
      if (isCovered) removeInherited()
      // From here on, `isThere` has no files to check.
      const all = segments.splice(0).concat(spare.take() ?? [])
      for (const segment of all) {
        if (segment.used === head.length || (isCovered && isApplied(segment))) await removeSegment(segment)
        else await segment.handle.close()
      }
    },
  }
}
