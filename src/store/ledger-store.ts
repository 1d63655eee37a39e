/** The contract of a ledger store, to which the journal is applied. */
import type { RefusalCode } from '../domain/refusals.ts'
import type { Spender } from '../domain/snapshot.ts'
import type { LedgerRecord, OpenRow } from './ledger-rows.ts'

export interface Rejected {
  record: LedgerRecord
  error: unknown
}

export interface LedgerWriter {
  /** One transaction, any order, idempotent. Rejected rows are returned and don't affect others. Throws a StoreRefusal if nothing was applied. */
  apply(records: readonly LedgerRecord[]): Rejected[] | Promise<Rejected[]>
  /** Abandons requests of instances with an expired lease; returns how many. Throws a StoreRefusal. */
  abandonGone(nowMs: number): number | Promise<number>
}

/** Rejected requests of one key, team, and code in an hour. */
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
  /** Adds counts in one transaction. Throws a StoreRefusal if nothing was added. */
  add(counts: readonly RefusalCount[]): void | Promise<void>
}

/**
 * In a cluster: entries that name changed rows, numbered from 1 and written in the rows' transaction. Shipped entries stay for a while, and the last one always.
 * Writes throw a StoreRefusal.
 */
export interface Outbox {
  /** `first`: number of the oldest entry; without entries, of the next one. `last`: number of the last entry ever; 0 if none. */
  range(): { first: number; last: number }
  /** Identifies an entry's content, to tell two outboxes apart. Null if the entry doesn't exist. */
  markAt(seq: number): string | null
  /** Current rows of the next `limit` entries. Null if there is no entry. */
  take(after: number, limit: number): OutboxBatch | null
  /** The next requests by ID, with or without entries. Null if there are none. */
  stored(after: string, limit: number): Pick<OutboxBatch, 'ids' | 'rows'> | null
  /** Removes entries before a number, up to `limit`; returns how many. */
  remove(before: number, limit: number): number
  /** Adds entries for stored requests with a higher ID, up to `limit`; returns where to continue, null if done. */
  again(after: string, limit: number): string | null
  /** Adds entries for counts of rejected requests. */
  refusalsAgain(sinceMs: number): void
}

export interface OutboxBatch {
  /** Number and mark of its last entry. */
  to: number
  mark: string
  entries: number
  /** IDs of all its requests, ascending. */
  ids: readonly string[]
  /** JSON with `requests`, `calls`, and `refusals`, by column name. Deleted rows are missing. */
  rows: string
}

export interface LedgerStore extends LedgerWriter {
  /** True once all applied records survive a power failure, so that the journal may drop them. */
  checkpoint(): Promise<boolean>
}

/** An instance's open requests are not abandoned during its lease. A sole server's lease is endless, until the next one starts. */
export interface Leases {
  /**
   * Throws a StoreRefusal.
   * @param living servers that finish their requests and keep their leases. All other earlier leases end. Null if other servers share the data.
   * @returns the run's epoch, higher than all earlier ones.
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
  /** Nano-dollars of requests created in the span, by a key or by members of a team at that time. Settled at cost, open at reservation. UTC hours. */
  spent(spender: Spender, span: Span): number
  /** Reservations of open requests, by request ID. */
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

/** `nanoUsd`: cost, or the reservations of the request and its calls. */
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
  /** Running instances: the server, and servers that finish their requests. Their open rows and journals are no findings. */
  living(): readonly string[]
  lastInstance(): string | null
  missing(records: readonly LedgerRecord[]): number
  count(): number
  has(requestId: string): boolean
  newestMs(): number | null
}

export interface AuditCell {
  place: { key_id: string; team_id: string; model: string; upstream: string; endpoint: string }
  /** True if only the totals have it. */
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
  /** `orphans`: no request. `attempts`: different number of calls. `sums`: different tokens or cost. */
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
  /** Time during which other writers were blocked. */
  lockedMs: number
  tookMs: number
}

export interface LedgerUpkeep {
  /** Removes requests; totals stay. */
  prune(slice: PruneSlice): Promise<(Pruned & SliceTiming) | 'busy'>
  /** Done once `rows` is below the limit. */
  drop(old: OldRows): Promise<({ rows: number } & SliceTiming) | 'busy'>
  /** Returns up to `pages` pages to the disk. */
  giveBack(pages: number): Promise<SliceTiming | 'busy'>
  space(): Space
  /** Time of the oldest request, ms; null if none. */
  oldestMs(): number | null
  /** IDs of open requests. */
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
  /** `next` of the previous slice; '' for the first. */
  after: string
  limit: number
  /** IDs to keep, even if these requests end during the run. */
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
  /** Free pages, which are reused before the file grows. */
  freePages: number
  /** True if the file can shrink while the store is in use. */
  canShrink: boolean
}
