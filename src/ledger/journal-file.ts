/**
 * The journal as files: a record of the ledger is a line of its length, its CRC-32 and JSON, so that a torn or damaged one shows;
 * a folder holds the segments of any instance, and records that no store takes. The `spool/` of versions before the journal
 * holds the same lines.
 */

import { appendFileSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '../log.ts'
import { filesIn } from '../store/files.ts'
import { type LedgerRecord, type SettledCall, type SettledRow, toCurrentRecord } from '../store/ledger-rows.ts'
import type { Rejected } from '../store/ledger-store.ts'

/** The line that a segment begins with: how it is written, and the last migration of the schema that its rows are of. */
export const toHead = (schema: string): string => toLine(JSON.stringify({ v: 1, schema }))

/** A record as a line. */
export const toRecordLine = (record: LedgerRecord): string => toLine(toJson(record))

/** One request may hold hundreds of calls: in a line they leave out what they have in common with the row of their request. */
function toJson(record: LedgerRecord): string {
  if (record.kind !== 'settle' || !record.calls) return JSON.stringify(record)
  const row: Record<string, unknown> = { ...record.row }
  const calls = record.calls.map(({ requestId: _, ...call }) =>
    Object.fromEntries(Object.entries(call).filter(([field, value]) => (row[field] ?? null) !== value)),
  )
  return JSON.stringify({ ...record, calls })
}

const FIRST_BYTES = 64 * 1024
/** A turn of a busy server gathers some hundred kilobytes; what a larger one took is not kept. */
const KEPT_BYTES = 1024 * 1024
const NEWLINE = 10

/** Lines on their way to a file, as bytes from the start: as one text they would be written twice. */
export class Lines {
  #memory = Buffer.allocUnsafeSlow(FIRST_BYTES)
  /** How many bytes they are. May be set back to where a line began, which is taken out with all that followed. */
  length = 0

  /** Good until the next line is added. */
  get bytes(): Buffer {
    return this.#memory.subarray(0, this.length)
  }

  add(record: LedgerRecord): void {
    this.addJson(toJson(record))
  }

  /** `<bytes of JSON> <CRC-32 of it in hex> <JSON>` and a newline. */
  addJson(json: string): void {
    const sum = Bun.hash.crc32(json).toString(16)
    this.#makeRoom(3 * json.length + 32)
    const memory = this.#memory
    // Of plain letters each is a byte, and other ones are rare.
    let at = this.length + memory.write(`${json.length} ${sum} `, this.length)
    const bytes = memory.write(json, at)
    if (bytes !== json.length) {
      at = this.length + memory.write(`${bytes} ${sum} `, this.length)
      memory.write(json, at)
    }
    memory[at + bytes] = NEWLINE
    this.length = at + bytes + 1
  }

  clear(): void {
    this.length = 0
    if (this.#memory.length > KEPT_BYTES) this.#memory = Buffer.allocUnsafeSlow(FIRST_BYTES)
  }

  #makeRoom(bytes: number): void {
    if (this.#memory.length - this.length >= bytes) return
    const larger = Buffer.allocUnsafeSlow(2 * (this.length + bytes))
    this.bytes.copy(larger)
    this.#memory = larger
  }
}

const single = new Lines()

function toLine(json: string): string {
  single.clear()
  single.addJson(json)
  return single.bytes.toString()
}

/** Reads a line; null where it is torn, damaged, empty or no record. */
export function fromLine(line: string): LedgerRecord | null {
  const match = /^(\d+) ([0-9a-f]+) (\{.*\})$/s.exec(line)
  if (!match) return null
  const [, length, checksum, json = ''] = match
  if (Buffer.byteLength(json) !== Number(length)) return null
  if (Bun.hash.crc32(json).toString(16) !== checksum) return null
  const record: LedgerRecord | { kind?: undefined } = JSON.parse(json)
  if (record.kind === undefined) return null
  if (record.kind !== 'settle' || !record.calls) return toCurrentRecord(record)
  const shared = { ...toShared(record.row), requestId: record.row.id }
  return toCurrentRecord({ ...record, calls: record.calls.map((call) => ({ ...shared, ...call })) })
}

/** What a call may have in common with its request, not what the request alone has. */
function toShared(row: SettledRow): Omit<SettledCall, 'requestId' | 'number' | 'reason'> {
  const { id, keyId, teamId, model, endpoint, stream, user, attempts, ...shared } = row
  return shared
}

/** Endings of a segment, and of the file that keeps records which no store takes. */
export const SEGMENT = '.log'
export const REJECTED = '.rejected'

/** Keeps a record that no store takes where an administrator finds it. Throws what the disk says. */
export function setAside(folder: string, instance: string, { record, error }: Rejected, log: Log): void {
  log.error('ledger_row_rejected', 'a ledger row does not fit the database; it is kept in the journal folder', {
    error: String(error),
  })
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  appendFileSync(join(folder, `${instance}${REJECTED}`), toRecordLine(record), { mode: 0o600, flush: true })
}

/** Path of every segment in the folder, of whatever instance. Their order does not matter: records are order-free. */
export function listSegments(folder: string): string[] {
  return filesIn(folder)
    .filter((name) => name.endsWith(SEGMENT))
    .map((name) => join(folder, name))
}

/** Where records wait for the database of a data folder: the journal, and the spool of older versions. */
export const JOURNALS = ['journal', 'spool'] as const

/** All segments that wait for it. */
export const listJournal = (dataFolder: string): string[] =>
  JOURNALS.flatMap((name) => listSegments(join(dataFolder, name)))

/** Reads the records of a segment. Torn or damaged lines are passed over, as are the zeros after the last one. */
export function readSegment(path: string): LedgerRecord[] {
  return readFileSync(path, 'utf8')
    .split('\n')
    .flatMap((line) => fromLine(line) ?? [])
}
