/**
 * A segment of the journal that is open: how it is made, written, a line (`journal-file.ts`) a record, read again and removed; and the
 * spare one, which is made while the one before still has room. `journal.ts` fills them while the server runs.
 */
import {
  close,
  fdatasync,
  fstatSync,
  fsync,
  mkdirSync,
  open,
  readSync,
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

/** When the request of a record was created, ms. A call may be made long after its request. */
export const timeOfRecord = (record: LedgerRecord): number =>
  record.kind === 'call' ? timeOfId(record.call.requestId) : record.row.createdMs

const CHUNK_BYTES = 256 * 1024

/** Reads up to `limit` records of an open segment from `from` on, and tells where the next one begins. */
export function readRecords(fd: number, from: number, end: number, limit: number) {
  const records: LedgerRecord[] = []
  for (let size = CHUNK_BYTES; ; size *= 2) {
    const bytes = Buffer.alloc(Math.min(size, end - from))
    const read = bytes.subarray(0, readSync(fd, bytes, 0, bytes.length, from))
    let at = 0
    for (let stop = read.indexOf(10); stop !== -1 && records.length < limit; stop = read.indexOf(10, at)) {
      const record = fromLine(read.toString('utf8', at, stop))
      if (record) records.push(record)
      at = stop + 1
    }
    if (at > 0) return { records, next: from + at }
    // A line may be longer than a chunk; what has no end is none.
    if (read.length < size) return { records, next: end }
  }
}

/** An open segment, of which every byte is on the disk before the first record is: a full disk still takes what fits. */
export interface Segment {
  readonly path: string
  readonly handle: OpenFile
  /** Its length, of which so much is written. */
  readonly bytes: number
  used: number
  /** The time of the oldest request that its records are of, ms; Infinity for none. */
  oldestMs: number
  /** How many of its records are not applied. */
  waiting: number
  /** Those of them that are in memory, oldest first, and from where on they are in the file alone. */
  inMemory: LedgerRecord[]
  readFrom: number | null
}

type Room = Pick<Segment, 'path' | 'handle' | 'bytes' | 'used'>

/** Makes a file of so many zeros that begins with `head`. Throws what the disk says, and then there is none. */
export async function createSegment(path: string, bytes: number, head: Buffer): Promise<Segment> {
  const folder = dirname(path)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  // Opened before all else: while the file is written, clients may take every file that this process may have open.
  const entries = await OpenFile.open(folder)
  try {
    const segment = await beginSegment(
      { path, handle: await OpenFile.open(path, 'wx+', 0o600), bytes, used: bytes },
      head,
    )
    try {
      // A new file survives a power cut only with the entry of its folder.
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

/** Begins anew in the room that a file has. Throws what the disk says, and then the file is gone. */
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

export async function removeSegment({ path, handle }: Pick<Segment, 'path' | 'handle'>): Promise<void> {
  await handle.close()
  // Somebody else may have deleted it.
  rmSync(path, { force: true })
}

/** Tells whether the path still leads to the file that is written, and that is as long as it was made. */
export function isThere({ path, handle, bytes }: Pick<Segment, 'path' | 'handle' | 'bytes'>): boolean {
  const found = statSync(path, { throwIfNoEntry: false })
  if (!found || found.size < bytes) return false
  const { dev, ino } = fstatSync(handle.fd)
  return found.dev === dev && found.ino === ino
}

/** Writes lines behind what the file holds. Throws what the disk says, and leaves none of them. */
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

/** A start would take whole lines of what has failed for records. */
function erase(fd: number, at: number, bytes: number): void {
  try {
    writeAll(fd, Buffer.alloc(bytes), at)
  } catch {
    // What could be written can be overwritten; the rest was never there.
  }
}

/** Writes so many zeros. A disk that is nearly full takes a part and says so only in the count. */
async function fill(handle: OpenFile, bytes: number): Promise<void> {
  const zeros = Buffer.alloc(Math.min(1024 * 1024, bytes))
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

const NONE_TAKEN = 'the disk took none of what was written'

/**
 * The first segment is made while the server starts, and the first request waits for it: it takes some 500 of them. It is
 * written once, unless a full disk leaves no room for another.
 */
const FIRST_SEGMENT_BYTES = 1024 * 1024
/** A disk without room for a segment is asked again after this, and a process without a file for one. */
const RETRY_MS = 1_000
const FILES_RETRY_MS = 50

interface SpareOptions {
  folder: string
  instance: string
  /** What each segment begins with. */
  head: Buffer
  segmentBytes: number
  /** What all segments together may take of the disk. */
  maxBytes: number
  /** What those take that are in use. */
  usedBytes(): number
  log: Log
}

interface Spare {
  /** Null while there is none. */
  readonly segment: Segment | null
  /** Whether there is none, and none on its way. */
  readonly isMissing: boolean
  /** Whether the last one could not be made. */
  readonly hasFailed: boolean
  /** Whether the limit leaves no room for one more. */
  isAtLimit(): boolean
  /** Makes sure that there is one, or tries to; null where that is of no use now. */
  grow(): Promise<void> | null
  /** Makes one in the room that a segment has which is given up. */
  reuse(segment: Segment): Promise<void>
  /** Gives it away, for good. */
  take(): Segment | null
  /** From now on `grow` makes none. */
  stop(): void
  /** Resolves once none is on its way. */
  settled(): Promise<void>
}

export function createSpare(options: SpareOptions): Spare {
  const { folder, instance, head, segmentBytes, maxBytes, usedBytes, log } = options
  let spare: Segment | null = null
  let preparing: Promise<void> | null = null
  /** When a segment that could not be made may be tried again; null where the last one could. */
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
        if (againMs === null) log.warn('journal_full', 'the journal cannot grow', { error: String(error) })
        againMs = performance.now() + (/^E[MN]FILE$/.test(codeOf(error)) ? FILES_RETRY_MS : RETRY_MS)
      }
      preparing = null
    }
    preparing = done()
    return preparing
  }

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
      // Each try takes what room there is for a moment: not at every group of a full disk.
      const isTooSoon = againMs !== null && performance.now() < againMs
      if (isStopped || isTooSoon) return null
      if (isAtLimit()) {
        if (!isLimitTold)
          log.warn('journal_full', 'the journal has reached its size and grows no further', { bytes: maxBytes })
        isLimitTold = true
        return null
      }
      const bytes = usedBytes() === 0 ? Math.min(FIRST_SEGMENT_BYTES, segmentBytes) : segmentBytes
      return prepare(createSegment(join(folder, `${instance}-${++number}.log`), bytes, head))
    },
    reuse: (segment) => prepare(beginSegment(segment, head)),
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

  /** Each operation throws what the system says. */
  static async open(path: string, flags = 'r', mode?: number): Promise<OpenFile> {
    return new OpenFile(await resultOf<number>((done) => open(path, flags, mode, done)))
  }

  /** Writes the first so many bytes at a place; returns how many were taken. */
  write(bytes: Uint8Array, length: number, at: number): Promise<number> {
    return resultOf((done) => write(this.fd, bytes, 0, length, at, done))
  }

  sync(): Promise<void> {
    return resultOf((done) => fsync(this.fd, done))
  }

  /** The same, but for what nobody needs to read it again. */
  datasync(): Promise<void> {
    return resultOf((done) => fdatasync(this.fd, done))
  }

  /** Once. */
  close(): Promise<void> {
    return resultOf((done) => close(this.fd, done))
  }
}

type Done<T> = (error: Error | null, result?: T) => void

const resultOf = <T>(begin: (done: Done<T>) => void): Promise<T> =>
  new Promise((resolve, reject) => begin((error, result) => (error ? reject(error) : resolve(result as T))))
