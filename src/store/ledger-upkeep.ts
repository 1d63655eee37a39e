/**
 * What a store does to keep the ledger from filling the disk, a slice at a time. `ledger/retention.ts` says when and how much;
 * `sqlite/upkeep.ts` is the first such store. Types only.
 */

export interface LedgerUpkeep {
  /** Takes settled requests away, with their calls; their sums stay in the rollup. */
  prune(slice: PruneSlice): Promise<Pruned | 'busy'>
  /** Gives up to so many free pages back to the disk. */
  giveBack(pages: number): Promise<{ lockedMs: number } | 'busy'>
  space(): Space
  /** The time of the oldest request on record, ms; null where there is none. */
  oldestMs(): number | null
}

export interface PruneSlice {
  /** The first ms of a UTC hour: requests created before it go. */
  untilMs: number
  /** Where the slice before ended; '' for the first one. */
  after: string
  /** Requests to look at. */
  limit: number
}

export interface Pruned {
  requests: number
  calls: number
  /** `after` of the next slice; null where this was the last one. */
  next: string | null
  /** For how long other writers were kept out, ms. */
  lockedMs: number
}

export interface Space {
  pageBytes: number
  pages: number
  /** Of these, pages that hold nothing: they are used again before the file grows. */
  freePages: number
  /** Whether free pages may be given back while the store is in use. */
  canShrink: boolean
}
