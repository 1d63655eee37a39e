/**
 * The journal's files: how a record is a line with its length and CRC-32, and how segments are found and read. `journal.ts`
 * fills them while the server runs; `recover.ts`, `audit.ts` and `doctor` read what others left. The `spool/` of versions
 * before the journal holds the same lines.
 */
import { appendFileSync, mkdirSync, readdirSync, readFileSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { fromPacked, type PackedRecord, toPacked } from './pack.ts'
import type { LedgerRecord } from './rows.ts'

/** Ending of the file that keeps records which no store takes. */
export const REJECTED = '.rejected'

/** Keeps a record that no store takes where an administrator finds it. Throws what the disk says. */
export function setAside(folder: string, instance: string, record: LedgerRecord): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  appendFileSync(join(folder, `${instance}${REJECTED}`), toLine(record), { mode: 0o600, flush: true })
}

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

/** The line that a segment begins with: how it is written, and the last migration of the schema that its rows are of. */
export const toHead = (schema: string) => frame(JSON.stringify({ v: 1, schema }))

export const toLine = (record: LedgerRecord) => frame(JSON.stringify(toPacked(record)))

/** `<bytes of JSON> <CRC-32 of it in hex> <JSON>` and a newline. */
const frame = (json: string) => `${Buffer.byteLength(json)} ${Bun.hash.crc32(json).toString(16)} ${json}\n`

/** Reads a line; null where it is torn, damaged, empty or no record. */
export function fromLine(line: string): LedgerRecord | null {
  const match = /^(\d+) ([0-9a-f]+) (\{.*\})$/s.exec(line)
  if (!match) return null
  const [, length, checksum, json = ''] = match
  if (Buffer.byteLength(json) !== Number(length)) return null
  if (Bun.hash.crc32(json).toString(16) !== checksum) return null
  const value: PackedRecord | { kind?: undefined } = JSON.parse(json)
  return value.kind === undefined ? null : fromPacked(value)
}
