/**
 * Where ledger records go first: append-only segments `journal/<instance>-<n>.log`. `ledger.ts` appends, `applier.ts` takes
 * what the store does not have yet; a segment goes once a checkpoint covers all of it. Only a bounded number of records stays
 * in memory, the others are read back from the file.
 */
import { rmSync } from 'node:fs'
import type { Log } from '../log.ts'
import type { LedgerRecord } from '../store/ledger-rows.ts'
import type { Rejected } from '../store/ledger-store.ts'
import { Lines, setAside, toHead } from './journal-file.ts'
import { appendLines, createSpare, isThere, readRecords, removeSegment, type Segment, timeOfRecord } from './segment.ts'

export const SEGMENT_BYTES = 8 * 1024 * 1024
const MAX_IN_MEMORY = 20_000
/** No row of a new request is longer: its texts are bounded where they are made. */
const MAX_ROW_BYTES = 8 * 1024

export interface Journal {
  /** Writes what finds a place, in one write, and returns the rest, of which nothing is kept. The last quarter takes outcomes alone. */
  append<T extends { record: LedgerRecord }>(group: readonly T[]): T[]
  /** Resolves once all that was appended survives a power cut. Throws what the disk says. */
  sync(): Promise<void>
  /** Makes sure that an empty segment waits on the disk, or tries to; null where that is of no use now. */
  grow(): Promise<void> | null
  /** Tells whether a new request would find no place, now or in a moment. */
  isFull(): boolean
  /** Tells whether the files that it writes are still where they were made. */
  isThere(): boolean
  /** The next records that are not applied, oldest first, at most `limit`; `done` says that they are. */
  take(limit: number): { records: LedgerRecord[]; done(): void } | null
  /** How many records are not applied, and all of them. */
  waiting(): number
  unapplied(): Generator<LedgerRecord>
  /**
   * Gives up segments that are applied in full, once `checkpoint` has resolved true; the one being written only where it holds
   * records of requests from before `beforeMs`, or where nothing else makes room.
   */
  release(checkpoint: () => Promise<boolean>, beforeMs?: number): Promise<void>
  /**
   * No record that is still in a file is of a request from before this time, ms; Infinity where there is none. A start applies them
   * all again: until they are gone, the rows that they made have to stay, or each would count twice.
   */
  oldestMs(): number
  /** Tells whether `release` has something to do. */
  hasApplied(): boolean
  /** Keeps a record that no store takes, in `<instance>.rejected`. Throws what the disk says. */
  setAside(rejected: Rejected): void
  /** Leaves on the disk only what is not applied, or, where no checkpoint covers it, what holds records. */
  close(isCovered: boolean): Promise<void>
}

export interface JournalOptions {
  folder: string
  instance: string
  /** Name of the last migration. */
  schema: string
  log: Log
  /** What all segments together may take of the disk. */
  maxBytes: number
  segmentBytes?: number
  maxInMemory?: number
  /** Paths of segments that an earlier run has left and the store has applied: they go with the next checkpoint. */
  inherited?: readonly string[]
}

export function createJournal(options: JournalOptions): Journal {
  const { folder, instance, log, maxBytes, segmentBytes = SEGMENT_BYTES, maxInMemory = MAX_IN_MEMORY } = options
  const head = Buffer.from(toHead(options.schema))
  /** What one write takes. */
  const lines = new Lines()
  /** Full ones first, the one being written last. */
  const segments: Segment[] = []
  const unsynced = new Set<Segment>()
  const inherited = [...(options.inherited ?? [])]
  let releasing: Promise<void> | null = null
  /** They are given up, and the disk may still have what they held: for good where it does not take what removes that. */
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
  /** The one being written is given up only where nothing else makes room. */
  const applied = (beforeMs = 0) =>
    segments.filter((each) => each.waiting === 0 && (each !== active() || each.oldestMs < beforeMs || isStuck()))

  /** Tells whether it is written. */
  const write = (segment: Segment, bytes: Uint8Array, records: readonly LedgerRecord[]): boolean => {
    const at = segment.used
    try {
      appendLines(segment, bytes)
    } catch (error) {
      log.error('journal_failed', 'the journal cannot be written', { error: String(error) })
      return false
    }
    segment.waiting += records.length
    for (const record of records) segment.oldestMs = Math.min(segment.oldestMs, timeOfRecord(record))
    unsynced.add(segment)
    const isTooMuch = sumOf(({ inMemory }) => inMemory.length) + records.length > maxInMemory
    if (segment.readFrom !== null || isTooMuch) segment.readFrom ??= at
    else for (const record of records) segment.inMemory.push(record)
    // The next segment is made while there is still room in this one; a full disk leaves us with the last quarter.
    if (segment.used > segment.bytes / 2) void spare.grow()
    return true
  }

  /** Throws what the disk says: what it does not remove stays among them. */
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
      // A record may have come in the meantime: what no checkpoint covers is kept.
      if (segment.used !== used || !applied(beforeMs).includes(segment)) continue
      const isWritten = segment === active()
      segments.splice(segments.indexOf(segment), 1)
      unsynced.delete(segment)
      leaving.add(segment)
      const isSmall = segment.bytes < segmentBytes && !spare.hasFailed && !isWritten
      // On a full disk nobody else may take the room that it has.
      if (spare.isMissing && !isSmall) await spare.reuse(segment)
      else await removeSegment(segment)
      leaving.delete(segment)
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
          // A line that cannot be read any more waits for nothing.
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
      // Whoever still looks whether its files are there finds none missing.
      const all = segments.splice(0).concat(spare.take() ?? [])
      for (const segment of all) {
        if (segment.used === head.length || (isCovered && segment.waiting === 0)) await removeSegment(segment)
        else await segment.handle.close()
      }
    },
  }
}
