/**
 * Makes a settle with many calls short: one request may hold hundreds of them, and they differ in little. In a line of the
 * journal a call leaves out what it has in common with the row of its request. Pure; `segment.ts` calls it.
 */
import type { LedgerRecord, SettledCall, SettledRow } from './rows.ts'

export type PackedRecord =
  | Exclude<LedgerRecord, { kind: 'settle' }>
  | { kind: 'settle'; row: SettledRow; calls?: readonly PackedCall[] }

type PackedCall = Pick<SettledCall, 'number' | 'reason'> & Partial<SettledCall>

/** Of a request alone: no call has them. */
const OWN: ReadonlySet<string> = new Set<Exclude<keyof SettledRow, keyof SettledCall>>([
  ...(['id', 'keyId', 'teamId', 'model', 'endpoint', 'stream', 'user', 'attempts'] as const),
])

export function toPacked(record: LedgerRecord): PackedRecord {
  if (record.kind !== 'settle' || !record.calls) return record
  const { row, calls } = record
  return { kind: 'settle', row, calls: calls.map((call) => pack(call, row)) }
}

export function fromPacked(record: PackedRecord): LedgerRecord {
  if (record.kind !== 'settle') return record
  const { row, calls } = record
  if (!calls) return { kind: 'settle', row }
  const shared = Object.fromEntries(Object.entries(row).filter(([field]) => !OWN.has(field)))
  return { kind: 'settle', row, calls: calls.map((call) => ({ requestId: row.id, ...shared, ...call }) as SettledCall) }
}

function pack({ requestId: _, ...call }: SettledCall, row: SettledRow): PackedCall {
  const shared: Record<string, unknown> = row
  const own = Object.entries(call).filter(([field, value]) => OWN.has(field) || shared[field] !== value)
  return Object.fromEntries(own) as PackedCall
}
