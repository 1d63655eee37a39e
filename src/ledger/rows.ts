/**
 * What the ledger is told: whole rows, so that applying one twice or out of order changes nothing. A line of the journal
 * holds exactly one of these records. The rows are those of the database: a column is declared in its schema alone.
 */
import type { Scope, Standing } from '../store/ledger-store.ts'
import type { calls, outcomeColumns, requests } from '../store/sqlite/schema.ts'

type Row = typeof requests.$inferSelect
type CallRow = typeof calls.$inferSelect
type OutcomeField = keyof ReturnType<typeof outcomeColumns>

/** A request as it stands before any upstream sees it. What it reserved is what it costs if nobody ever settles it. */
export type OpenRow = Omit<Row, OutcomeField | 'attempts'>

/** How a request ended. Tokens and cost are the sums over its calls; `estimated` where some count is ours. */
export type Outcome = Omit<Pick<Row, OutcomeField | 'attempts'>, 'status'> & { status: 'ok' | 'failed' | 'cut' }

export type SettledRow = OpenRow & Outcome

/** A settled row, or one that was given up at a start because its instance is gone. */
export type ClosedRow = OpenRow & Omit<Outcome, 'status'> & { status: Outcome['status'] | 'abandoned' }

/** Why an additional call is made. */
export type Reason = 'retry' | 'fallback' | 'limit' | 'fan_out' | 'schema'

/**
 * An additional call of a request, from its second on, as it stands before it is made. The first one stands inline in the
 * request's row, and what that row has reserved is the first call's alone.
 */
export type OpenCall = Omit<CallRow, OutcomeField | 'reason'> & { reason: Reason }

/** How an additional call ended. It is told with the outcome of its request, which contains it. */
export type SettledCall = OpenCall & Omit<Outcome, 'attempts'>

export type ClosedCall = OpenCall & Omit<ClosedRow, keyof OpenRow | 'attempts'>

/** `calls` are all additional calls of the request; absent where there was none. */
export type LedgerRecord =
  | { kind: 'open'; row: OpenRow }
  | { kind: 'call'; call: OpenCall }
  | { kind: 'settle'; row: SettledRow; calls?: readonly SettledCall[] }

/**
 * What is kept of an outcome whose answer was withheld, because nothing could record it in time: what it cost. Its calls
 * went as they went.
 */
export function toWithheld(row: SettledRow): SettledRow {
  if (row.status !== 'ok') return row
  const end = row.stream ? ({ status: 'cut' } as const) : ({ status: 'failed', httpStatus: 503 } as const)
  return { ...row, ...end, errorCode: 'ledger_unavailable' }
}

/**
 * Nano-dollars that `records`, which the store does not have yet, add to what it says is spent on requests created since
 * `fromMs`.
 */
export function toUnapplied(
  records: Iterable<LedgerRecord>,
  standing: (requestId: string) => Standing | null,
  scope: Scope,
  fromMs: number,
): number {
  const isOf = (row: Pick<Standing, 'keyId' | 'teamId'>) => row[scope.kind === 'key' ? 'keyId' : 'teamId'] === scope.id
  const requests = new Map<string, { open?: OpenRow; settled?: SettledRow; reservedNanoUsd: number }>()
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
