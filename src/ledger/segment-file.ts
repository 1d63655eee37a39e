/**
 * One open file of the journal, of which every byte is on the disk before the first record is: a full disk still takes what
 * fits. `journal.ts` decides which of them is written.
 */
import { mkdirSync, unlinkSync, writeSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { LedgerRecord } from './rows.ts'

export interface SegmentFile {
  readonly path: string
  readonly handle: FileHandle
  used: number
  /** How many of its records are not applied. */
  waiting: number
  /** Those of them that are in memory, oldest first, and from where on they are in the file alone. */
  inMemory: LedgerRecord[]
  readFrom: number | null
}

/** Makes a file of so many zeros that begins with `head`. Throws what the disk says, and then there is none. */
export async function createFile(path: string, bytes: number, head: Buffer): Promise<SegmentFile> {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const handle = await open(path, 'wx+', 0o600)
  try {
    await fill(handle, bytes)
    await handle.sync()
    return begin(path, handle, head)
  } catch (error) {
    await removeFile({ path, handle })
    throw error
  }
}

/** Begins anew in the room that the file has. */
export async function recycleFile({ path, handle, used }: SegmentFile, head: Buffer): Promise<SegmentFile> {
  await fill(handle, used)
  return begin(path, handle, head)
}

export async function removeFile({ path, handle }: Pick<SegmentFile, 'path' | 'handle'>): Promise<void> {
  await handle.close()
  unlinkSync(path)
}

/** Writes a text that is so many bytes behind what the file holds. */
export function appendText(file: SegmentFile, text: string, bytes: number): void {
  const written = writeSync(file.handle.fd, text, file.used)
  if (written < bytes) writeAll(file.handle.fd, Buffer.from(text).subarray(written), file.used + written)
  file.used += bytes
}

function begin(path: string, handle: FileHandle, head: Buffer): SegmentFile {
  writeAll(handle.fd, head, 0)
  return { path, handle, used: head.length, waiting: 0, inMemory: [], readFrom: null }
}

/** Writes so many zeros. A disk that is nearly full takes a part and says so only in the count. */
async function fill(handle: FileHandle, bytes: number): Promise<void> {
  const zeros = Buffer.alloc(Math.min(1024 * 1024, bytes))
  for (let at = 0; at < bytes; ) {
    const { bytesWritten } = await handle.write(zeros, 0, Math.min(zeros.length, bytes - at), at)
    if (bytesWritten === 0) throw new Error(NONE_TAKEN)
    at += bytesWritten
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
