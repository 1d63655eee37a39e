/** A report of failures under its columns' names, as the admin API answers it. Pure. */
import type { FailuresReport } from '../ledger/failures.ts'
import type { UnwellStatus } from '../store/failure-store.ts'

export interface FailuresDocument {
  failures: { at_ms: number; status: UnwellStatus; error_code: string | null; requests: number }[]
  rest: number
  since_ms: number
  until_ms: number
  /** Ledger records that the database did not have yet. */
  waiting: number
}

export const toFailuresDocument = (
  { rows, rest, sinceMs, untilMs }: FailuresReport,
  waiting: number,
): FailuresDocument => ({
  failures: rows.map(({ atMs, status, errorCode, requests }) => ({
    ...{ at_ms: atMs, status, error_code: errorCode, requests },
  })),
  ...{ rest, since_ms: sinceMs, until_ms: untilMs, waiting },
})
