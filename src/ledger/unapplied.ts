/** Spend of a key or team in records that the store does not have yet. */
import type { Spender } from '../domain/snapshot.ts'
import type { Growth, LedgerRecord, OpenRow, SettledRow } from '../store/ledger-rows.ts'
import type { CountedRequest, Span } from '../store/ledger-store.ts'

export const isGrowth = (record: LedgerRecord): record is Growth => 'heldNanoUsd' in record

/**
 * Nano-dollars that unapplied records add to the store's count for the span.
 *
 * @param underWay see `OwnLedger.unapplied`.
 * @param isEndToCome true if ends of settled requests will still be reported: then `underWay` includes these requests.
 */
export function toUnapplied(
  records: Iterable<LedgerRecord>,
  storedOf: (requestId: string) => CountedRequest | null,
  spender: Spender,
  { fromMs, untilMs }: Span,
  underWay = new Map<string, number>(),
  isEndToCome = false,
): number {
  const isOf = (row: Pick<CountedRequest, 'keyId' | 'teamId'>) =>
    row[spender.kind === 'key' ? 'keyId' : 'teamId'] === spender.id
  const requests = new Map<string, { open?: OpenRow; settled?: SettledRow; reservedNanoUsd: number }>()
  for (const record of records) {
    const requestId = record.kind === 'call' ? record.call.requestId : record.row.id
    const request = requests.get(requestId) ?? { reservedNanoUsd: 0 }
    requests.set(requestId, request)
    const heldNanoUsd = isGrowth(record) ? record.heldNanoUsd : 0
    if (record.kind === 'settle') request.settled = record.row
    else if (record.kind === 'call') request.reservedNanoUsd += record.call.reservedNanoUsd - heldNanoUsd
    else if (isGrowth(record)) request.reservedNanoUsd += record.row.reservedNanoUsd - heldNanoUsd
    else request.open = record.row
  }
  let sum = 0
  for (const [requestId, { open, settled, reservedNanoUsd }] of requests) {
    const row = settled ?? open
    if (row && !isOf(row)) continue
    const stored = storedOf(requestId)
    const owner = row ?? stored
    if (!owner || !isOf(owner) || owner.createdMs < fromMs || owner.createdMs >= untilMs) continue
    const counted = stored?.nanoUsd ?? 0
    if (stored?.isOpen === false) {
      if (isEndToCome) underWay.set(requestId, counted)
      continue
    }
    const reserved = (stored?.nanoUsd ?? open?.reservedNanoUsd ?? 0) + reservedNanoUsd
    if (settled && !isEndToCome) underWay.delete(requestId)
    else underWay.set(requestId, settled?.costNanoUsd ?? reserved)
    sum += (settled?.costNanoUsd ?? reserved) - counted
  }
  return sum
}
