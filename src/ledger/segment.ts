/**
 * A segment of the journal that is open: how it is made, written, a line (`line.ts`) a record, read again and removed.
 * `journal.ts` fills them while the server runs.
 */
import { fstatSync, mkdirSync, readSync, rmSync, statSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { timeOfId } from '../domain/id.ts'
import type { LedgerRecord } from '../store/ledger-rows.ts'
import { fromLine } from './line.ts'
import { OpenFile } from './open-file.ts'

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
export async function beginSegment({ path, handle, bytes, used }: Room, head: Buffer): Promise<Segment> {
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
