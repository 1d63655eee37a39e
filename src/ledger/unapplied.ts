/**
 * What records that wait in the journal change of what the store says somebody has spent. `ledger.ts` asks it when a budget
 * is new. Pure.
 */
import type { Scope, Standing } from '../store/ledger-store.ts'
import type { LedgerRecord, OpenRow, SettledRow } from './rows.ts'

interface Waiting {
  open?: OpenRow
  settled?: SettledRow
  /** Of additional calls. */
  reservedNanoUsd: number
}

/** Nano-dollars that `records` add to what is spent on requests created since `fromMs`. */
export function toUnapplied(
  records: Iterable<LedgerRecord>,
  standing: (requestId: string) => Standing | null,
  scope: Scope,
  fromMs: number,
): number {
  const isOf = (row: Pick<Standing, 'keyId' | 'teamId'>) => row[scope.kind === 'key' ? 'keyId' : 'teamId'] === scope.id
  const requests = new Map<string, Waiting>()
  for (const record of records) {
    const requestId = record.kind === 'call' ? record.call.requestId : record.row.id
    const request = requests.get(requestId) ?? { reservedNanoUsd: 0 }
    requests.set(requestId, request)
    if (record.kind === 'open') request.open = record.row
    else if (record.kind === 'settle') request.settled = record.row
    else request.reservedNanoUsd += record.call.reservedNanoUsd
  }
  let sum = 0
  for (const [requestId, { open, settled, reservedNanoUsd }] of requests) {
    const row = settled ?? open
    if (row && !isOf(row)) continue
    const stored = standing(requestId)
    const owner = row ?? stored
    if (!owner || !isOf(owner) || owner.createdMs < fromMs || stored?.isOpen === false) continue
    const counted = stored?.nanoUsd ?? 0
    const reserved = (stored?.nanoUsd ?? open?.reservedNanoUsd ?? 0) + reservedNanoUsd
    sum += (settled?.costNanoUsd ?? reserved) - counted
  }
  return sum
}
