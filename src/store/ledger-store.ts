/** The contract of a ledger store, to which the journal is applied. */
import type { RefusalCode } from '../domain/refusals.ts'
import type { Spender } from '../domain/snapshot.ts'
import type { LedgerRecord, OpenRow } from './ledger-rows.ts'

export interface Rejected {
  record: LedgerRecord
  error: unknown
}

export interface LedgerWriter {
  /** One transaction, any order, idempotent. Rows that don't fit are returned without affecting others. Throws a StoreRefusal, and then has applied nothing. */
  apply(records: readonly LedgerRecord[]): Rejected[] | Promise<Rejected[]>
  /** Abandons requests of instances with an expired lease; returns how many. Throws a StoreRefusal. */
  abandonGone(nowMs: number): number | Promise<number>
}

/** Of one key, team, and code in an hour. */
export interface RefusalCount {
  hourMs: number
  /** '' if no known key. */
  keyId: string
  /** '' if no team. */
  teamId: string
  code: RefusalCode
  refused: number
  lastMs: number
}

export interface RefusalWriter {
  /** Adds up, in one transaction. Throws a StoreRefusal, and then has added nothing. */
  add(counts: readonly RefusalCount[]): void | Promise<void>
}

/**
 * In a cluster: entries that name changed rows, numbered from 1 and written in the rows' transaction. Those that were shipped stay for a while, and the last one
 * always. Throws a StoreRefusal where it writes.
 */
export interface Outbox {
  /** Numbers of the oldest entry, or of the next one if there is none, and of the last one that ever was; 0 if none. */
  range(): { first: number; last: number }
  /** What an entry names: tells two outboxes apart. Null if it isn't there. */
  markAt(seq: number): string | null
  /** The rows that the next `limit` entries name, as they are now. Null if there is no entry. */
  take(after: number, limit: number): OutboxBatch | null
  /** The next requests by ID, whether entries name them or not. Null if there are none. */
  stored(after: string, limit: number): Pick<OutboxBatch, 'ids' | 'rows'> | null
  /** Removes entries before a number, up to `limit`; returns how many. */
  remove(before: number, limit: number): number
  /** Adds entries for stored requests with a higher ID, up to `limit`; returns where to continue, null if done. */
  again(after: string, limit: number): string | null
  /** Adds entries for counts of refused requests. */
  refusalsAgain(sinceMs: number): void
}

export interface OutboxBatch {
  /** Number of its last entry, and what that names. */
  to: number
  mark: string
  entries: number
  /** Of all its requests, ascending. */
  ids: readonly string[]
  /** As JSON: `requests`, `calls`, and `refusals`, with the columns' names. Rows that were deleted are missing. */
  rows: string
}

export interface LedgerStore extends LedgerWriter {
  /** True once all that was applied survives a power failure, so that the journal may drop it. */
  checkpoint(): Promise<boolean>
}

/** An instance's open requests are not abandoned during its lease. A sole server's lease is endless, until the next one starts. */
export interface Leases {
  /**
   * Throws a StoreRefusal.
   * @param living servers that finish their requests: their leases go on; all other earlier ones end. Null if other servers share the data.
   * @returns the run's epoch, higher than all before.
   */
  begin(instance: string, span: Span, living: readonly string[] | null): number
  /** For a process of the running server, whose epoch stays the highest. Throws a StoreRefusal. */
  join(instance: string, span: Span): void
  /** False if expired: its open requests may have been abandoned. Throws a StoreRefusal. */
  renew(instance: string, untilMs: number): boolean
}

/** Includes `fromMs`, excludes `untilMs`. */
export interface Span {
  fromMs: number
  untilMs: number
}

/** Synchronous. */
export interface LedgerReader {
  /** Nano-dollars of requests created in the span, by a key or by then members of a team: settled at cost, open at reservation. UTC hours. */
  spent(spender: Spender, span: Span): number
  /** Reservations of the open ones, by request ID. */
  underWay(spender: Spender, span: Span): Map<string, number>
  /** Newest hour before `untilMs` with a settled request, ms; 0 if none. */
  latestHour(untilMs: number): number
  /**
   * The last minute's requests and calls, oldest first, with tokens used, or reserved if unknown. After a clock was set back, also the next minute, but nothing
   * later.
   */
  recent(sinceMs: number): RecentRequest[]
  count(): number
  /** Open requests of these servers. */
  openOf(instances: readonly string[]): OpenRequest[]
  counted(requestId: string): CountedRequest | null
}

export type OpenRequest = Pick<OpenRow, 'id' | 'instance' | 'keyId' | 'teamId' | 'upstream'>

/** Its cost, or all that it and its calls reserved. */
export type CountedRequest = Pick<OpenRow, 'keyId' | 'teamId' | 'createdMs'> & { isOpen: boolean; nanoUsd: number }

/** A request, for its key and team, or a call, for its upstream; other fields are null. */
export interface RecentRequest {
  keyId: string | null
  teamId: string | null
  upstream: string | null
  tokens: number
  createdMs: number
}

/** For verification, hour by hour, each hour consistent. Never writes. */
export interface LedgerAudit {
  /** Ascending, with rows, calls, or totals. */
  hours(): number[]
  /** Empty before `fromMs`. */
  cells(hourMs: number): AuditCell[]
  /** First hour from which no row was removed; 0 if none ever was. */
  fromMs(): number
  days(): number[]
  dayProblems(dayMs: number): DayProblem[]
  callProblems(hourMs: number): CallProblem[]
  open(): OpenRows[]
  /** The running instances, whose open rows and journals are no findings: the server, and those that finish their requests. */
  living(): readonly string[]
  lastInstance(): string | null
  missing(records: readonly LedgerRecord[]): number
  count(): number
  has(requestId: string): boolean
  newestMs(): number | null
}

export interface AuditCell {
  place: { key_id: string; team_id: string; model: string; upstream: string; endpoint: string }
  /** Only the totals have it. */
  orphan: boolean
  requests: number
  costNanoUsd: number
  differences: CellDifference[]
}

export interface CellDifference {
  field: string
  ledger: number
  rollup: number
}

export interface DayProblem {
  /** Such as `key`; in pairs such as `key of model`, the value is `acme/large key-a`. */
  dimension: string
  value: string
}

export interface CallProblem {
  /** `orphans`: no request. `attempts`: another number of calls. `sums`: other tokens or cost. */
  problem: 'orphans' | 'attempts' | 'sums'
  requests: number
  request_id: string
}

export interface OpenRows {
  table: 'requests' | 'calls'
  instance: string
  rows: number
  oldest_ms: number
}

/** ms. */
export interface SliceTiming {
  /** Other writers were blocked. */
  lockedMs: number
  tookMs: number
}

export interface LedgerUpkeep {
  /** Totals stay. */
  prune(slice: PruneSlice): Promise<(Pruned & SliceTiming) | 'busy'>
  /** Fewer rows than the limit: done. */
  drop(old: OldRows): Promise<({ rows: number } & SliceTiming) | 'busy'>
  /** Up to `pages`. */
  giveBack(pages: number): Promise<SliceTiming | 'busy'>
  space(): Space
  /** ms; null if none. */
  oldestMs(): number | null
  /** Open request IDs. */
  openBefore(ms: number): string[]
}

export interface OldRows {
  /** `keys`: ended before `untilMs`, without requests, usage, or refusals. `refusals`: whole hours. */
  what: 'keys' | 'audit' | 'refusals'
  untilMs: number
  limit: number
}

export interface PruneSlice {
  /** UTC hour. */
  untilMs: number
  /** Of the previous slice; '' for the first. */
  after: string
  limit: number
  /** IDs to keep, even if they end meanwhile. */
  spared: readonly string[]
}

export interface Pruned {
  requests: number
  calls: number
  /** Next `after`; null if done. */
  next: string | null
}

export interface Space {
  pageBytes: number
  pages: number
  /** Reused before the file grows. */
  freePages: number
  /** While the store is in use. */
  canShrink: boolean
}
