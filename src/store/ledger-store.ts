/**
 * The contract of a store of the ledger, where it comes to rest once its journal has it: applying records, reading what limits need,
 * auditing, and letting go of old rows. `ledger/` works with any; `sqlite/ledger-*.ts` is the first.
 */
import type { Period } from '../domain/limits.ts'
import type { Spender } from '../domain/snapshot.ts'
import type { LedgerRecord, OpenRow } from './ledger-rows.ts'

/** A record that no store takes, and why. */
export interface Rejected {
  record: LedgerRecord
  error: unknown
}

export interface LedgerWriter {
  /**
   * Applies records in one transaction. Order-free and idempotent: what is there already changes nothing. One row that does
   * not fit is returned and costs the others nothing. Throws a StoreRefusal, and then has taken none of them.
   */
  apply(records: readonly LedgerRecord[]): Rejected[] | Promise<Rejected[]>
  /** Gives up what instances have left open that have no lease by then, and tells how many requests. Throws a StoreRefusal. */
  abandonGone(nowMs: number): number | Promise<number>
}

export interface LedgerStore extends LedgerWriter {
  /** Resolves true once all that was applied before the call outlives the machine, so that a journal may forget it. */
  checkpoint(): Promise<boolean>
}

/**
 * Runs of servers: what one has open in the ledger is its own for as long as its lease runs, and nobody else gives it up. One that is
 * alone holds it without end, until the next is alone; those that share a store each renew theirs.
 */
export interface Leases {
  /**
   * Begins a run, which holds its lease until `untilMs`. Throws a StoreRefusal.
   *
   * @param isAlone whether no other can be at work in this store, since whoever asks holds the lock of its data: all leases before this
   * one are over at once.
   * @returns the epoch of the run, which is later than that of every run before it.
   */
  begin(instance: string, span: Span, isAlone: boolean): number
  /** Returns false where it is over: what the instance had open may have been given up. Throws a StoreRefusal. */
  renew(instance: string, untilMs: number): boolean
}

/** A span of time: `fromMs` is in it, `untilMs` no more. */
export interface Span {
  fromMs: number
  untilMs: number
}

/** What a key or a team has spent, and when it was last used. */
export interface Spending {
  /** Nano-dollars of each span that was asked for: settled requests at their cost, open ones at all that they have reserved. */
  nanoUsd: Record<Period, number>
  /** When the newest request of a key came, and for which model; of a team always null. */
  lastUse: { atMs: number; model: string } | null
}

/** Reads what limits and lists must know. In one process with its store, and so at once. */
export interface LedgerReader {
  /**
   * Nano-dollars spent on requests created from `fromMs` on and before `untilMs`, of a key or of whoever was in a team then:
   * settled ones at their cost, open ones at all that they have reserved. Both are the first ms of a UTC hour.
   */
  spent(spender: Spender, span: Span): number
  /** Of those, the open ones: what each has reserved, by its id. */
  underWay(spender: Spender, span: Span): Map<string, number>
  /**
   * The same of all keys or teams that ever asked for anything, by their ids, in one pass over the sums of days, in which all spans begin and
   * end: for lists.
   *
   * @param id of this one alone.
   */
  spending(kind: Spender['kind'], spans: Readonly<Record<Period, Span>>, id?: string): Map<string, Spending>
  /** The newest hour before `untilMs` that a request was settled in, as its first ms; 0 where there is none. */
  latestHour(untilMs: number): number
  /**
   * Requests since `sinceMs`, which is a minute ago, and their calls, each oldest first, with the tokens that they used;
   * where that is not known, what they had reserved. A clock that was set back has left requests in the future: those of
   * the next minute are among them, later ones, which may be any number, are not.
   */
  recent(sinceMs: number): RecentRequest[]
  /** Requests on record. */
  count(): number
  /** What is on record of a request; null where nothing is. */
  counted(requestId: string): CountedRequest | null
}

/** A request, and what the store counts for it: its cost, or all that it and its calls have reserved. */
export type CountedRequest = Pick<OpenRow, 'keyId' | 'teamId' | 'createdMs'> & { isOpen: boolean; nanoUsd: number }

/** A request, as its key and the team that this had then know it, or a call, as its upstream does: the others' names are null. */
export interface RecentRequest {
  keyId: string | null
  teamId: string | null
  upstream: string | null
  tokens: number
  createdMs: number
}

/** Reads the whole ledger, for an audit, one hour at a time and each hour consistent in itself. Never writes. */
export interface LedgerAudit {
  /** The hours that rows, calls or the rollup have anything of, as their first ms, earliest first: whatever the clock said. */
  hours(): number[]
  /** What rows and rollup say of an hour, cell by cell; of one before `fromMs`, whose rows have been taken away, nothing. */
  cells(hourMs: number): AuditCell[]
  /** The first ms of the hour from which on no row was taken away; 0 where none was. */
  fromMs(): number
  /** The days that the rollup has sums of, as their first ms. */
  days(): number[]
  /** Where the sums of a day are not those of its hours. */
  dayProblems(dayMs: number): DayProblem[]
  /** Where requests and their additional calls contradict each other. */
  callProblems(hourMs: number): CallProblem[]
  /** Rows that are open, by instance. */
  open(): OpenRows[]
  /** The instance that serves now: what it has open, or in its journal, is on its way. */
  living(): string | null
  /** The instance of the latest run; null where none is noted. */
  lastInstance(): string | null
  /** How many of these records are not applied. */
  missing(records: readonly LedgerRecord[]): number
  /** Requests on record. */
  count(): number
  /** Whether a request is on record. */
  has(requestId: string): boolean
  /** When the newest request was made, ms; null where there is none. */
  newestMs(): number | null
}

export interface AuditCell {
  place: { key_id: string; team_id: string; model: string; upstream: string; endpoint: string }
  /** Whether the rollup has it and no row does. */
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
  /** Of what, such as `key`, and of which; within a model or a team, such as `key of model`, of both: `acme/large key-a`. */
  dimension: string
  value: string
}

export interface CallProblem {
  /**
   * `orphans`: calls without their request. `attempts`: a request took another number of calls than are on record.
   * `sums`: the tokens or the cost of its calls do not add up to those of a request.
   */
  problem: 'orphans' | 'attempts' | 'sums'
  /** How many requests that concerns, and the first of them. */
  requests: number
  request_id: string
}

export interface OpenRows {
  table: 'requests' | 'calls'
  instance: string
  rows: number
  oldest_ms: number
}

/** How long a slice took, ms. */
export interface Took {
  /** For how long other writers were kept out. */
  lockedMs: number
  /** All of it, with what was read before. */
  tookMs: number
}

export interface LedgerUpkeep {
  /** Takes settled requests away, with their calls; their sums stay in the rollup. */
  prune(slice: PruneSlice): Promise<(Pruned & Took) | 'busy'>
  /** Removes old rows of the configuration. Fewer than the limit: there are no more. */
  drop(old: OldRows): Promise<({ rows: number } & Took) | 'busy'>
  /** Gives up to so many free pages back to the disk. */
  giveBack(pages: number): Promise<Took | 'busy'>
  space(): Space
  /** The time of the oldest request on record, ms; null where there is none. */
  oldestMs(): number | null
  /** Ids of requests from before a time that are under way, as far as the database knows. */
  openBefore(ms: number): string[]
}

export interface OldRows {
  /** `keys`: that were revoked, or expired, before a time and have no request and no usage. `audit`: entries of the audit log. */
  what: 'keys' | 'audit'
  untilMs: number
  /** Rows to remove. */
  limit: number
}

export interface PruneSlice {
  /** The first ms of a UTC hour: requests created before it go. */
  untilMs: number
  /** Where the slice before ended; '' for the first one. */
  after: string
  /** Requests to look at. */
  limit: number
  /** Ids of requests that stay, even if they end meanwhile. */
  spared: readonly string[]
}

export interface Pruned {
  requests: number
  calls: number
  /** `after` of the next slice; null where this was the last one. */
  next: string | null
}

export interface Space {
  pageBytes: number
  pages: number
  /** Of these, pages that hold nothing: they are used again before the file grows. */
  freePages: number
  /** Whether free pages may be given back while the store is in use. */
  canShrink: boolean
}
