/** The contract of a ledger store, to which the journal is applied: writing, reading for limits, verification, and retention. */
import type { Period } from '../domain/limits.ts'
import type { Spender } from '../domain/snapshot.ts'
import type { LedgerRecord, OpenRow } from './ledger-rows.ts'

/** A record that the store cannot take, and why. */
export interface Rejected {
  record: LedgerRecord
  error: unknown
}

export interface LedgerWriter {
  /**
   * Applies records in one transaction, in any order, idempotently. Rows that don't fit are returned without affecting others. Throws a StoreRefusal, and then
   * has applied nothing.
   */
  apply(records: readonly LedgerRecord[]): Rejected[] | Promise<Rejected[]>
  /** Abandons the open requests of instances whose lease has expired; returns how many. Throws a StoreRefusal. */
  abandonGone(nowMs: number): number | Promise<number>
}

export interface LedgerStore extends LedgerWriter {
  /** Resolves true once all that was applied before survives a power failure, so that the journal may drop it. */
  checkpoint(): Promise<boolean>
}

/**
 * Runs of servers: an instance's open requests are not abandoned while its lease lasts. A sole server has an endless lease until the next one starts; servers
 * that share a store renew theirs.
 */
export interface Leases {
  /**
   * Begins a run with a lease until `untilMs`. Throws a StoreRefusal.
   *
   * @param isAlone true if the caller holds the lock of the data: all earlier leases end at once.
   * @returns the run's epoch, higher than all before.
   */
  begin(instance: string, span: Span, isAlone: boolean): number
  /** False if the lease has expired: the instance's open requests may have been abandoned. Throws a StoreRefusal. */
  renew(instance: string, untilMs: number): boolean
}

/** Includes `fromMs`, excludes `untilMs`. */
export interface Span {
  fromMs: number
  untilMs: number
}

export interface Spending {
  /** Nano-dollars per span: settled requests at their cost, open ones at their reservation. */
  nanoUsd: Record<Period, number>
  /** Time and model of a key's newest request; null for teams. */
  lastUse: { atMs: number; model: string } | null
}

/** What limits and lists read, synchronously. */
export interface LedgerReader {
  /**
   * Nano-dollars of requests created in the span, by a key or by the members of a team at that time: settled ones at their cost, open ones at their
   * reservation. Spans begin and end at UTC hours.
   */
  spent(spender: Spender, span: Span): number
  /** The open ones of those: reservation by request ID. */
  underWay(spender: Spender, span: Span): Map<string, number>
  /**
   * The same for all keys or teams with any request, from daily totals in one pass; spans begin and end at UTC days.
   *
   * @param id only this one.
   */
  spending(kind: Spender['kind'], spans: Readonly<Record<Period, Span>>, id?: string): Map<string, Spending>
  /** Start of the newest hour before `untilMs` with a settled request, ms; 0 if none. */
  latestHour(untilMs: number): number
  /**
   * Requests of the last minute (since `sinceMs`) and their calls, oldest first, with tokens used, or reserved if unknown. After a clock was set back, includes
   * the next minute, but nothing later.
   */
  recent(sinceMs: number): RecentRequest[]
  /** All stored requests. */
  count(): number
  /** Null if not stored. */
  counted(requestId: string): CountedRequest | null
}

/** A request and what counts toward budgets: its cost, or all that it and its calls reserved. */
export type CountedRequest = Pick<OpenRow, 'keyId' | 'teamId' | 'createdMs'> & { isOpen: boolean; nanoUsd: number }

/** A request, counted for its key and team, or a call, counted for its upstream; the other fields are null. */
export interface RecentRequest {
  keyId: string | null
  teamId: string | null
  upstream: string | null
  tokens: number
  createdMs: number
}

/** Reads the whole ledger for verification, hour by hour, each hour consistently. Never writes. */
export interface LedgerAudit {
  /** Starts of all hours with rows, calls, or totals, ascending. */
  hours(): number[]
  /** Compares rows and totals of an hour; empty before `fromMs`, where rows were removed. */
  cells(hourMs: number): AuditCell[]
  /** Start of the first hour from which no row was removed; 0 if none ever was. */
  fromMs(): number
  /** Starts of all days with totals. */
  days(): number[]
  /** Differences between a day's totals and its hours'. */
  dayProblems(dayMs: number): DayProblem[]
  /** Contradictions between requests and their extra calls. */
  callProblems(hourMs: number): CallProblem[]
  /** Open rows by instance. */
  open(): OpenRows[]
  /** The running instance, whose open rows and journal are not findings. */
  living(): string | null
  /** The latest instance; null if none. */
  lastInstance(): string | null
  /** How many of these records are not applied. */
  missing(records: readonly LedgerRecord[]): number
  count(): number
  has(requestId: string): boolean
  /** When the newest request was created, ms; null if none. */
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
  /** The dimension, such as `key`, and its value; within a model or team, such as `key of model`, both: `acme/large key-a`. */
  dimension: string
  value: string
}

export interface CallProblem {
  /** `orphans`: calls without a request. `attempts`: the number of calls differs. `sums`: the calls' tokens or cost differ from the request's. */
  problem: 'orphans' | 'attempts' | 'sums'
  /** Affected requests, and the first of them. */
  requests: number
  request_id: string
}

export interface OpenRows {
  table: 'requests' | 'calls'
  instance: string
  rows: number
  oldest_ms: number
}

/** Duration of a slice, ms. */
export interface Took {
  /** How long other writers were blocked. */
  lockedMs: number
  /** Total, including reads. */
  tookMs: number
}

export interface LedgerUpkeep {
  /** Removes settled requests with their calls; totals stay. */
  prune(slice: PruneSlice): Promise<(Pruned & Took) | 'busy'>
  /** Removes old configuration rows; fewer than the limit means done. */
  drop(old: OldRows): Promise<({ rows: number } & Took) | 'busy'>
  /** Returns up to `pages` free pages to the disk. */
  giveBack(pages: number): Promise<Took | 'busy'>
  space(): Space
  /** Time of the oldest request, ms; null if none. */
  oldestMs(): number | null
  /** IDs of requests created before `ms` that are open in the database. */
  openBefore(ms: number): string[]
}

export interface OldRows {
  /** `keys`: revoked or expired before `untilMs`, without requests or usage. `audit`: audit log entries. */
  what: 'keys' | 'audit'
  untilMs: number
  limit: number
}

export interface PruneSlice {
  /** Start of a UTC hour: requests created before it are removed. */
  untilMs: number
  /** Where the previous slice ended; '' for the first. */
  after: string
  /** Requests to look at. */
  limit: number
  /** IDs of requests to keep, even if they end meanwhile. */
  spared: readonly string[]
}

export interface Pruned {
  requests: number
  calls: number
  /** `after` of the next slice; null if done. */
  next: string | null
}

export interface Space {
  pageBytes: number
  pages: number
  /** Unused pages, which are reused before the file grows. */
  freePages: number
  /** True if free pages can be returned while the store is in use. */
  canShrink: boolean
}
