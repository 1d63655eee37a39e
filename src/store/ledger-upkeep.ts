/**
 * What a store does to keep old rows from filling the disk, a slice at a time. `ledger/retention.ts` says when and how much;
 * `sqlite/upkeep.ts` is the first such store. Types only.
 */

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
