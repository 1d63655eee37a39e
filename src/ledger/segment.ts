/** Journal segments, and the spare one, prepared while the current one still has space. */
import {
  close,
  fdatasync,
  fstatSync,
  fsync,
  mkdirSync,
  open,
  readSync,
  renameSync,
  rmSync,
  statSync,
  write,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { codeOf } from '../domain/error.ts'
import { timeOfId } from '../domain/id.ts'
import type { Log } from '../log.ts'
import type { LedgerRecord } from '../store/ledger-rows.ts'
import { fromLine } from './journal-file.ts'

/** Creation time of the record's request, ms; a call may be much later. */
export const timeOfRecord = (record: LedgerRecord): number =>
  record.kind === 'call' ? timeOfId(record.call.requestId) : record.row.createdMs

const CHUNK_BYTES = 256 * 1024
/** Shared by all reads, which copy their data. */
const chunk = Buffer.allocUnsafeSlow(CHUNK_BYTES)

/**
 * Reads up to `limit` records. Returns where the next one starts, and how many lines before are no records, such as the
 * header.
 *
 * @param leavesOut leaves out opening records of requests that settle among these; `opened` counts them. The outcome has all their data.
 */
export function readRecords(fd: number, from: number, end: number, limit: number, leavesOut = false) {
  const records: LedgerRecord[] = []
  const opens: { id: string; line: [at: number, stop: number] }[] = []
  for (let size = CHUNK_BYTES; ; size *= 2) {
    const bytes = size > CHUNK_BYTES ? Buffer.allocUnsafeSlow(size) : chunk
    const read = bytes.subarray(0, readSync(fd, bytes, 0, Math.min(size, end - from), from))
    let at = 0
    let skipped = 0
    const take = (start: number, stop: number) => {
      const record = fromLine(read.toString('utf8', start, stop))
      if (record) records.push(record)
      else skipped++
    }
    let stop = read.indexOf(10)
    for (; stop !== -1 && records.length + opens.length < limit; stop = read.indexOf(10, at)) {
      const id = leavesOut ? idOfOpened(read, at, stop) : null
      if (id === null) take(at, stop)
      else opens.push({ id, line: [at, stop] })
      at = stop + 1
    }
    const settled = new Set(records.map((record) => (record.kind === 'settle' ? record.row.id : '')))
    const left = opens.filter(({ id }) => !settled.has(id))
    for (const { line } of left) take(...line)
    if (at > 0) return { records, skipped, opened: opens.length - left.length, next: from + at }
    // Lines may be longer than a chunk; an unterminated line is no record.
    if (read.length < size) return { records, skipped, opened: 0, next: end }
  }
}

const OPENED = Buffer.from('{"kind":"open","row":{"id":"')
const ID_LENGTH = 32

/** ID of the request that a line opens; null for any other line, such as a growth. */
function idOfOpened(bytes: Buffer, at: number, stop: number): string | null {
  const json = bytes.indexOf(OPENED[0] ?? 0, at)
  const id = json + OPENED.length
  const isOpened = id < stop && bytes.compare(OPENED, 0, OPENED.length, json, id) === 0
  // A growth ends with a number.
  if (!isOpened || bytes[stop - 2] !== 125 || bytes[id + ID_LENGTH] !== 34) return null
  return bytes.toString('latin1', id, id + ID_LENGTH)
}

/** Fully allocated on disk before its first record, so that a full disk still accepts what fits. */
export interface Segment {
  readonly path: string
  readonly handle: OpenFile
  readonly bytes: number
  used: number
  /** Time of the oldest request with a record here, ms; Infinity if none. */
  oldestMs: number
  waiting: number
  /** The unapplied records in memory, oldest first, and the position from which the rest is only in the file. */
  inMemory: LedgerRecord[]
  readFrom: number | null
}

type Room = Pick<Segment, 'path' | 'handle' | 'bytes' | 'used'>

/** Creates a file of zeros that begins with `head`. Throws the system's error, and then leaves no file. */
export async function createSegment(path: string, bytes: number, head: Buffer): Promise<Segment> {
  const folder = dirname(path)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  // Open the folder first, because clients may use up the file descriptors later.
  const entries = await OpenFile.open(folder)
  try {
    const segment = await beginSegment(
      { path, handle: await OpenFile.open(path, 'wx+', 0o600), bytes, used: bytes },
      head,
    )
    try {
      // A new file survives a power failure only if its folder is synced.
      await entries.sync()
    } catch (error) {
      await removeSegment(segment)
      throw error
    }
    return segment
  } finally {
    await entries.close()
  }
}

/** Initializes a file. Throws the system's error, and then the file is removed. */
async function beginSegment({ path, handle, bytes, used }: Room, head: Buffer): Promise<Segment> {
  try {
    await fill(handle, used)
    writeAll(handle.fd, head, 0)
    await handle.sync()
    return {
      path,
      handle,
      bytes,
      used: head.length,
      oldestMs: Number.POSITIVE_INFINITY,
      waiting: 0,
      inMemory: [],
      readFrom: null,
    }
  } catch (error) {
    await removeSegment({ path, handle })
    throw error
  }
}

/** Empties a segment for reuse under a new name, so that no name is used twice. Throws the system's error, and then the file is removed. */
async function emptySegment(segment: Segment, path: string, head: Buffer): Promise<Segment> {
  try {
    renameSync(segment.path, path)
  } catch (error) {
    await removeSegment(segment)
    throw error
  }
  return beginSegment({ ...segment, path }, head)
}

export async function removeSegment({ path, handle }: Pick<Segment, 'path' | 'handle'>): Promise<void> {
  await handle.close()
  // It may already be deleted.
  rmSync(path, { force: true })
}

/** False if the file was deleted, replaced, or truncated. */
export function isThere({ path, handle, bytes }: Pick<Segment, 'path' | 'handle' | 'bytes'>): boolean {
  const found = statSync(path, { throwIfNoEntry: false })
  if (!found || found.size < bytes) return false
  const { dev, ino } = fstatSync(handle.fd)
  return found.dev === dev && found.ino === ino
}

/** Throws the system's error, and then none of the lines remains. */
export function appendLines(segment: Segment, lines: Uint8Array): void {
  const { fd } = segment.handle
  try {
    writeAll(fd, lines, segment.used)
  } catch (error) {
    erase(fd, segment.used, lines.length)
    throw error
  }
  segment.used += lines.length
}

/** Erases lines of a failed write, which a start would read otherwise. */
function erase(fd: number, at: number, bytes: number): void {
  try {
    writeAll(fd, Buffer.alloc(bytes), at)
  } catch {
    // Written bytes can always be overwritten.
  }
}

/** Linux caches a larger write as one unit, and visits all of its blocks at each later append: three times the cost. */
const FILL_BYTES = 128 * 1024

/** A nearly full disk may write only a part without an error. */
async function fill(handle: OpenFile, bytes: number): Promise<void> {
  const zeros = Buffer.alloc(Math.min(FILL_BYTES, bytes))
  for (let at = 0; at < bytes; ) {
    const written = await handle.write(zeros, Math.min(zeros.length, bytes - at), at)
    if (written === 0) throw new Error(NONE_TAKEN)
    at += written
  }
}

function writeAll(fd: number, bytes: Uint8Array, at: number): void {
  for (let done = 0; done < bytes.length; ) {
    const written = writeSync(fd, bytes, done, bytes.length - done, at + done)
    if (written === 0) throw new Error(NONE_TAKEN)
    done += written
  }
}

const NONE_TAKEN = 'the disk accepted no data'

/** Small, since the first request waits for it; holds about 500 requests. Filled once, unless the disk is full. */
const FIRST_SEGMENT_BYTES = 1024 * 1024
/** Pauses after a full disk, and after too many open files. */
const RETRY_MS = 1_000
const FILES_RETRY_MS = 50

interface SpareOptions {
  folder: string
  instance: string
  head: Buffer
  segmentBytes: number
  maxBytes: number
  /** Disk space of the other segments. */
  usedBytes(): number
  log: Log
}

interface Spare {
  readonly segment: Segment | null
  /** True if no spare exists and none is being created. */
  readonly isMissing: boolean
  readonly hasFailed: boolean
  /** True if another would exceed `maxBytes`. */
  isAtLimit(): boolean
  /** Prepares a spare; null if not possible now. */
  grow(): Promise<void> | null
  /** Turns a removed segment into the spare. */
  reuse(segment: Segment): Promise<void>
  take(): Segment | null
  stop(): void
  /** Resolves once no creation is in progress. */
  settled(): Promise<void>
}

export function createSpare(options: SpareOptions): Spare {
  const { folder, instance, head, segmentBytes, maxBytes, usedBytes, log } = options
  let spare: Segment | null = null
  let preparing: Promise<void> | null = null
  /** Time of the next attempt after a failure; null without a failure. */
  let againMs: number | null = null
  let isLimitTold = false
  let isStopped = false
  let number = 0

  const prepare = (segment: Promise<Segment>): Promise<void> => {
    const done = async () => {
      try {
        spare = await segment
        againMs = null
        isLimitTold = false
      } catch (error) {
        if (againMs === null) log.warn('journal_full', 'cannot extend the journal', { error: String(error) })
        againMs = performance.now() + (/^E[MN]FILE$/.test(codeOf(error)) ? FILES_RETRY_MS : RETRY_MS)
      }
      preparing = null
    }
    preparing = done()
    return preparing
  }

  const nextPath = () => join(folder, `${instance}-${++number}.log`)
  const isAtLimit = () => usedBytes() + segmentBytes > maxBytes

  return {
    get segment() {
      return spare
    },
    get isMissing() {
      return spare === null && preparing === null
    },
    get hasFailed() {
      return againMs !== null
    },
    isAtLimit,
    grow() {
      if (spare) return null
      if (preparing) return preparing
      // Each attempt temporarily takes the free space, so don't try at every group on a full disk.
      const isTooSoon = againMs !== null && performance.now() < againMs
      if (isStopped || isTooSoon) return null
      if (isAtLimit()) {
        if (!isLimitTold) log.warn('journal_full', 'the journal has reached --max-journal-size', { bytes: maxBytes })
        isLimitTold = true
        return null
      }
      const bytes = usedBytes() === 0 ? Math.min(FIRST_SEGMENT_BYTES, segmentBytes) : segmentBytes
      return prepare(createSegment(nextPath(), bytes, head))
    },
    reuse: (segment) => prepare(emptySegment(segment, nextPath(), head)),
    take() {
      const taken = spare
      spare = null
      return taken
    },
    stop() {
      isStopped = true
    },
    async settled() {
      await preparing
    },
  }
}

class OpenFile {
  private constructor(readonly fd: number) {}

  /** Every operation throws the system's error. */
  static async open(path: string, flags = 'r', mode?: number): Promise<OpenFile> {
    return new OpenFile(await resultOf<number>((done) => open(path, flags, mode, done)))
  }

  write(bytes: Uint8Array, length: number, at: number): Promise<number> {
    return resultOf((done) => write(this.fd, bytes, 0, length, at, done))
  }

  sync(): Promise<void> {
    return resultOf((done) => fsync(this.fd, done))
  }

  /** Skips metadata that is not needed to read the file. */
  datasync(): Promise<void> {
    return resultOf((done) => fdatasync(this.fd, done))
  }

  close(): Promise<void> {
    return resultOf((done) => close(this.fd, done))
  }
}

type Done<T> = (error: Error | null, result?: T) => void

const resultOf = <T>(begin: (done: Done<T>) => void): Promise<T> =>
  new Promise((resolve, reject) => begin((error, result) => (error ? reject(error) : resolve(result as T))))
