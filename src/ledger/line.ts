/**
 * How a record of the ledger is a line of a file: its length, its CRC-32, and JSON, so that one which was torn or damaged is seen
 * to be. `journal-folder.ts` says what files there are of them. Pure.
 */
import type { LedgerRecord, SettledCall, SettledRow } from '../store/ledger-rows.ts'

/** The line that a segment begins with: how it is written, and the last migration of the schema that its rows are of. */
export const toHead = (schema: string) => frame(JSON.stringify({ v: 1, schema })).text

/** A line, and how many bytes it takes: to count them later would first make one string of its parts. */
export interface Frame {
  text: string
  bytes: number
}

/** One request may hold hundreds of calls: in a line they leave out what they have in common with the row of their request. */
export function toFrame(record: LedgerRecord): Frame {
  if (record.kind !== 'settle' || !record.calls) return frame(JSON.stringify(record))
  const row: Record<string, unknown> = record.row
  const calls = record.calls.map(({ requestId: _, ...call }) =>
    Object.fromEntries(Object.entries(call).filter(([field, value]) => (row[field] ?? null) !== value)),
  )
  return frame(JSON.stringify({ ...record, calls }))
}

/** The same without its length. */
export const toRecordLine = (record: LedgerRecord): string => toFrame(record).text

/** `<bytes of JSON> <CRC-32 of it in hex> <JSON>` and a newline. */
function frame(json: string): Frame {
  const bytes = Buffer.byteLength(json)
  const head = `${bytes} ${Bun.hash.crc32(json).toString(16)} `
  return { text: `${head}${json}\n`, bytes: head.length + bytes + 1 }
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
  if (record.kind !== 'settle' || !record.calls) return record
  const shared = { ...toShared(record.row), requestId: record.row.id }
  return { ...record, calls: record.calls.map((call) => ({ ...shared, ...call })) }
}

/** What a call may have in common with its request, not what the request alone has. */
function toShared(row: SettledRow): Omit<SettledCall, 'requestId' | 'number' | 'reason'> {
  const { id, keyId, teamId, model, endpoint, stream, user, attempts, firstCall, ...shared } = row
  return { ...shared, endedBefore: null }
}
