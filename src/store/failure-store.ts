/**
 * What a report of failures needs of a store. `ledger/failures.ts` reads through it; `sqlite/failure-reader.ts` is the first such store.
 */
import type { Span } from './ledger-store.ts'
import type { RequestStatus } from './request-store.ts'
import type { UsageFilter } from './usage-store.ts'

/** How a request ended that did not end well. */
export type UnwellStatus = Extract<RequestStatus, 'failed' | 'cut' | 'abandoned'>

/** By what failures are filtered: users and endpoints are not among it. */
export type FailureFilter = Omit<UsageFilter, 'users' | 'endpoints'>

export interface FailureQuery {
  span: Span
  /** Of a group: an hour or a day, in ms. */
  stepMs: number
  where: FailureFilter
}

/** Requests of one hour or day that ended in the same way. Of a group there may be several: they are to be added up. */
export interface FailureCell {
  atMs: number
  status: UnwellStatus
  /** Such as `upstream_timeout`; null where none is on record. */
  errorCode: string | null
  requests: number
}

/** Never writes to the ledger. */
export interface FailureReader {
  /** A day a page, each read at once: between them nothing is held open. */
  pages(query: FailureQuery): Iterable<readonly FailureCell[]>
  /** The first hour from which on every settled request is still there. Never goes back. */
  keptFromMs(): number
}
