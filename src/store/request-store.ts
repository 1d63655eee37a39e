/**
 * Requests on record as those read them who look after a gateway: which there were, and what one of them was charged for. The
 * services in `ledger/` work with any such reader; `sqlite/request-reader.ts` is the first. Never writes.
 */
import { matches } from '../domain/text.ts'
import type { PriceRow } from './catalog-rows.ts'
import type { StoredCall, StoredRequest } from './ledger-rows.ts'

export const REQUEST_STATUSES = [
  'ok',
  'failed',
  'cut',
  'abandoned',
  'open',
] as const satisfies StoredRequest['status'][]
export type RequestStatus = (typeof REQUEST_STATUSES)[number]

/** Those that did not end well. */
export const UNWELL = ['failed', 'cut', 'abandoned'] as const satisfies RequestStatus[]

/** Which requests are wanted: those to which all of it applies. */
export interface RequestFilter {
  /** Ids of keys: of none but these, whatever else is wanted. Where it is empty, of none at all. */
  ownKeys?: readonly string[]
  keyId?: string
  teamId?: string
  /** A pattern over the slugs of models, such as `openai/*`. */
  model?: string
  /** The one that was asked last. */
  upstream?: string
  statuses?: readonly RequestStatus[]
  /** As its client named it. */
  user?: string
  /** Such as `upstream_timeout`. */
  errorCode?: string
}

/** Whether a request is wanted: what a store's own search says, for one that is at hand. */
export function isWanted(row: Omit<StoredRequest, 'firstCall'>, filter: RequestFilter): boolean {
  const { ownKeys, keyId, teamId, model, upstream, statuses, user, errorCode } = filter
  return (
    (ownKeys === undefined || ownKeys.includes(row.keyId)) &&
    (keyId === undefined || row.keyId === keyId) &&
    (teamId === undefined || row.teamId === teamId) &&
    (model === undefined || matches(model, row.model)) &&
    (upstream === undefined || row.upstream === upstream) &&
    (statuses === undefined || statuses.includes(row.status)) &&
    (user === undefined || row.user === user) &&
    (errorCode === undefined || row.errorCode === errorCode)
  )
}

export interface RequestSearch extends RequestFilter {
  /** Requests created from then on, and before then. */
  sinceMs?: number
  untilMs?: number
  /** What the id ends in. */
  idEnd?: string
  upstreamRequestId?: string
}

/** Some of the requests on record, next to each other. */
export interface RowSlice {
  /** The wanted ones among them, newest first, as many as were asked for at most. */
  rows: StoredRequest[]
  /** Id of the oldest one that was looked at, to go on from; null where no more are to be looked at. */
  next: string | null
}

export interface RequestReader {
  /**
   * Looks at the newest `size` requests whose ids sort before `before`, and no more: it takes milliseconds, and holds nothing
   * once it has returned.
   *
   * @param before null for the newest of all.
   * @param limit most that are returned.
   */
  slice(search: RequestSearch, before: string | null, limit: number, size: number): RowSlice
  get(id: string): StoredRequest | null
  /** Ids that begin with these digits, so many at most. */
  beginning(digits: string, limit: number): string[]
  /** Of requests of before this time some were taken away, or all; 0 where none ever were. */
  keptFromMs(): number
  /** All additional calls of a request, by number. */
  calls(requestId: string): StoredCall[]
  /** A price that a call was charged by; null where there is none of this id. */
  price(id: string): PriceRow | null
}
