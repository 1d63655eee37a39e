/**
 * The spool's files: how a record is a line with its length and CRC-32, and how segments are found, read and written.
 * `spool.ts` fills them while the server runs; `recover.ts` and `audit.ts` read what others left.
 */
import { readdirSync, readFileSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { fromPacked, toPacked } from './pack.ts'
import type { LedgerRecord } from './rows.ts'

/** Writes all of the bytes at a position: a disk that is nearly full takes a part and says so only in the count. */
export async function writeAll(handle: Pick<FileHandle, 'write'>, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, at + done)
    if (bytesWritten === 0) throw new Error('the disk took none of what was written')
    done += bytesWritten
  }
}

/** Ending of the file that keeps records which no database takes. */
export const REJECTED = '.rejected'

/** No row is longer than this, and no call: their texts are bounded where they are made. */
const MAX_ROW_BYTES = 8 * 1024
const MAX_CALL_BYTES = 2 * 1024

/** No line of a record with so many calls is longer. Most are a tenth of it: calls leave out what they share. */
export const maxLineBytes = (calls: number) => MAX_ROW_BYTES + calls * MAX_CALL_BYTES

/** Names in a folder, in order; none where it is no folder, or is not for us. */
export function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder).sort()
  } catch {
    return []
  }
}

/** Path of every segment in the folder, of whatever instance. Their order does not matter: records are order-free. */
export function listSegments(folder: string): string[] {
  return filesIn(folder)
    .filter((name) => name.endsWith('.log'))
    .map((name) => join(folder, name))
}

/** Reads the records of a segment. Torn or damaged lines are passed over, as are the zeros after the last one. */
export function readSegment(path: string): LedgerRecord[] {
  const records: LedgerRecord[] = []
  for (const line of readFileSync(path).toString('utf8').split('\n')) {
    const record = fromLine(line)
    if (record) records.push(record)
  }
  return records
}

/** `<bytes of JSON> <CRC-32 of it in hex> <JSON>` and a newline. */
export function toLine(record: LedgerRecord): string {
  const json = JSON.stringify(toPacked(record))
  return `${Buffer.byteLength(json)} ${Bun.hash.crc32(json).toString(16)} ${json}\n`
}

/** Reads a line; null where it is torn, damaged or empty. */
export function fromLine(line: string): LedgerRecord | null {
  const match = /^(\d+) ([0-9a-f]+) (\{.*\})$/s.exec(line)
  if (!match) return null
  const [, length, checksum, json = ''] = match
  if (Buffer.byteLength(json) !== Number(length)) return null
  if (Bun.hash.crc32(json).toString(16) !== checksum) return null
  return fromPacked(JSON.parse(json))
}
