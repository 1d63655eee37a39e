/**
 * Makes a settle with many calls short: one request may hold hundreds of them, and they differ in little. In a spool
 * line a call leaves out what it has in common with the row of its request. Pure; `segment.ts` calls it.
 */
import { CLOSED_CALL_FIELDS, type LedgerRecord, type SettledCall, type SettledRow } from './rows.ts'

export type PackedRecord =
  | Exclude<LedgerRecord, { kind: 'settle' }>
  | { kind: 'settle'; row: SettledRow; calls?: readonly PackedCall[] }

type PackedCall = Pick<SettledCall, 'number' | 'reason'> & Partial<SettledCall>

/** Fields that a call and a request both have. */
type Shared = keyof SettledCall & keyof SettledRow

const OWN_FIELDS: ReadonlySet<string> = new Set<Exclude<keyof SettledCall, Shared>>(['requestId', 'number', 'reason'])
const isShared = (field: string): field is Shared => !OWN_FIELDS.has(field)
const SHARED_FIELDS = CLOSED_CALL_FIELDS.filter(isShared)

export function toPacked(record: LedgerRecord): PackedRecord {
  if (record.kind !== 'settle' || !record.calls) return record
  const { row, calls } = record
  return { kind: 'settle', row, calls: calls.map((call) => pack(call, row)) }
}

export function fromPacked(record: PackedRecord): LedgerRecord {
  if (record.kind !== 'settle') return record
  const { row, calls } = record
  if (!calls) return { kind: 'settle', row }
  const shared = Object.fromEntries(SHARED_FIELDS.map((field) => [field, row[field]])) as Pick<SettledRow, Shared>
  return { kind: 'settle', row, calls: calls.map((call) => ({ requestId: row.id, ...shared, ...call })) }
}

function pack({ requestId: _, ...call }: SettledCall, row: SettledRow): PackedCall {
  const own = Object.entries(call).filter(([field, value]) => !isShared(field) || row[field] !== value)
  return Object.fromEntries(own) as PackedCall
}
