/**
 * What the ledger is told: whole rows, so that applying one twice or out of order changes nothing. A line of the journal
 * holds exactly one of these records. The rows are those of the database: a column is declared in its schema alone. Types
 * only.
 */
import type { calls, outcomeColumns, requests } from './sqlite/ledger-schema.ts'

type Row = typeof requests.$inferSelect
type CallRow = typeof calls.$inferSelect
type OutcomeField = keyof ReturnType<typeof outcomeColumns>
/** What the end of a request has beside that of a call. */
type RequestField = 'attempts' | 'firstCall'

/** A request, and an additional call of one, as they are on record, however they stand. */
export type StoredRequest = Row
export type StoredCall = CallRow

/** A request as it stands before any upstream sees it. What it reserved is what it costs if nobody ever settles it. */
export type OpenRow = Omit<Row, OutcomeField | RequestField>

/** How a request ended. Tokens and cost are the sums over its calls; `estimated` where some count is ours. */
export type Outcome = Omit<Pick<Row, OutcomeField | RequestField>, 'status'> & { status: 'ok' | 'failed' | 'cut' }

export type SettledRow = OpenRow & Outcome

/** A settled row, or one that was given up at a start because its instance is gone. */
export type ClosedRow = OpenRow & Omit<Outcome, 'status'> & { status: Outcome['status'] | 'abandoned' }

/** Why an additional call is made. `within`: the upstream made it of another model, within a call of ours that it has charged for. */
export type AdditionalReason = 'retry' | 'fallback' | 'limit' | 'fan_out' | 'schema' | 'within'

/**
 * An additional call of a request, from its second on, as it stands before it is made. The first one stands inline in the
 * request's row, and what that row has reserved is the first call's alone.
 */
export type OpenCall = Omit<CallRow, OutcomeField | 'reason'> & { reason: AdditionalReason }

/** How an additional call ended. It is told with the outcome of its request, which contains it. */
export type SettledCall = OpenCall & Omit<Outcome, RequestField>

export type ClosedCall = OpenCall & Omit<ClosedRow, keyof OpenRow | RequestField>

/**
 * A request or an additional call that is open, with what it holds by now: never less than before. Whoever knows it already changes its
 * reserve alone. `heldNanoUsd` is what it held before.
 */
export type Growth =
  | { kind: 'open'; row: OpenRow; heldNanoUsd: number }
  | { kind: 'call'; call: OpenCall; heldNanoUsd: number }

/** `calls` are all additional calls of the request; absent where there was none. */
export type LedgerRecord =
  | { kind: 'open'; row: OpenRow }
  | { kind: 'call'; call: OpenCall }
  | Growth
  | { kind: 'settle'; row: SettledRow; calls?: readonly SettledCall[] }
