/**
 * File format of the journal: one record per line with length, CRC-32, and JSON, so that torn or damaged lines are detected. A folder holds segments of any
 * instance, and rejected records. `spool/` of older versions has the same format.
 */

import { appendFileSync, mkdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { toNone } from '../domain/units.ts'
import type { Log } from '../log.ts'
import { filesIn } from '../store/files.ts'
import { type LedgerRecord, type SettledCall, type SettledRow, toCurrentRecord } from '../store/ledger-rows.ts'
import type { Rejected } from '../store/ledger-store.ts'

/** First line of a segment: format version, and the newest migration of its rows' schema. */
export const toHead = (schema: string): string => toLine(JSON.stringify({ v: 1, schema }))

export const toRecordLine = (record: LedgerRecord): string => toLine(toJson(record))

/** Calls omit fields equal to their request's row: a request may have hundreds. */
function toJson(record: LedgerRecord): string {
  if (record.kind !== 'settle' || !record.calls) return JSON.stringify(record)
  const row: Record<string, unknown> = { ...record.row }
  const none = toNone(record.row)
  const calls = record.calls.map(({ requestId: _, ...call }) =>
    Object.fromEntries(Object.entries({ ...none, ...call }).filter(([field, value]) => (row[field] ?? null) !== value)),
  )
  return JSON.stringify({ ...record, calls })
}

const FIRST_BYTES = 64 * 1024
/** Buffers above this size are freed; a busy server's turn needs a few hundred kilobytes. */
const KEPT_BYTES = 1024 * 1024
const NEWLINE = 10

/** Builds lines as bytes, since one large text would be encoded twice. */
export class Lines {
  #memory = Buffer.allocUnsafeSlow(FIRST_BYTES)
  /** In bytes. Setting it back to the start of a line removes this line and all later ones. */
  length = 0

  /** Valid until the next line is added. */
  get bytes(): Buffer {
    return this.#memory.subarray(0, this.length)
  }

  add(record: LedgerRecord): void {
    this.addJson(toJson(record))
  }

  /** `<bytes of JSON> <CRC-32 in hex> <JSON>` and a newline. */
  addJson(json: string): void {
    const sum = Bun.hash.crc32(json).toString(16)
    this.#makeRoom(3 * json.length + 32)
    const memory = this.#memory
    // Assumes ASCII first, as it usually is.
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

/** Null if torn, damaged, empty, or not a record. */
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

function toShared(row: SettledRow): Omit<SettledCall, 'requestId' | 'number' | 'reason'> {
  const { id, keyId, teamId, model, endpoint, stream, user, attempts, ...shared } = row
  return shared
}

export const SEGMENT = '.log'
export const REJECTED = '.rejected'

/** Saves a record that the store rejects for an administrator. Throws the system's error. */
export function setAside(folder: string, instance: string, { record, error }: Rejected, log: Log): void {
  log.error('ledger_row_rejected', 'database rejected a ledger row; saved in the journal folder', {
    error: String(error),
  })
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  appendFileSync(join(folder, `${instance}${REJECTED}`), toRecordLine(record), { mode: 0o600, flush: true })
}

/** Segments of any instance, in any order: records are order-free. */
export function listSegments(folder: string): string[] {
  return filesIn(folder)
    .filter((name) => name.endsWith(SEGMENT))
    .map((name) => join(folder, name))
}

/** Folders with records for the database; `spool` is of older versions. */
export const JOURNALS = ['journal', 'spool'] as const

export const listJournal = (dataFolder: string): string[] =>
  JOURNALS.flatMap((name) => listSegments(join(dataFolder, name)))

/** True if the instance wrote the segment. */
export const isOf = (path: string, instance: string): boolean => basename(path).startsWith(`${instance}-`)

/** Skips torn or damaged lines, and the zeros at the end. */
export function readSegment(path: string): LedgerRecord[] {
  return readFileSync(path, 'utf8')
    .split('\n')
    .flatMap((line) => fromLine(line) ?? [])
}
