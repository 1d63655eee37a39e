/** How a running server is doing, as the admin API answers. Types only. */
import type { Check } from './check.ts'

/** `filling`: full within a week, or nearly full; `full`: the budget is used up, or the disk has no room for the journal. */
export interface DiskState {
  state: 'ok' | 'filling' | 'full'
  used_bytes: number
  reusable_bytes: number
  free_bytes: number
  /** Of `--disk`; null = none. */
  budget_bytes: number | null
  /** Null before there are two days to compare. */
  growth_bytes_per_day: number | null
  /** Until the budget or the disk is used up, whichever comes first; null where it does not grow, or nobody knows. */
  days_left: number | null
}

/** What a server knows of itself. */
export interface ServerStatus {
  version: string
  /** Ends in `/v1`. */
  url: string
  started_ms: number
  readiness: ServerReadiness
  /** Why it is not `ok`, in sentences; none where it is. */
  reasons: string[]
  /** `behind`: the oldest record has waited for the database for 10 s; `unavailable`: the journal takes no new requests. */
  ledger: 'ok' | 'behind' | 'unavailable'
  /** Records of the journal that the database does not have yet. */
  waiting: number
  /** What of the data folder is gone, or no longer what the server writes to. */
  lost: 'database' | 'journal' | null
  /** Null before it was measured. */
  disk: DiskState | null
  backups: BackupsStatus
  /** Requests under way, and bytes of memory that are held for them. */
  in_flight: number
  buffered_bytes: number
}

export interface BackupsStatus {
  /** From one scheduled backup to the next; 0 = none is made. */
  every_ms: number
  /** How many of those are kept. */
  keep: number
  /** Why the last scheduled one could not be made, or what is wrong with it. */
  failed: string | null
  /** Of the newest, however it was made. */
  newest_ms: number | null
}

/** The same with what was found of keys and budgets. */
export interface StatusDocument extends ServerStatus {
  checks: Check[]
}

/** Whether a server takes requests, and whether all is well. */
export type ServerReadiness = 'ok' | 'degraded' | 'starting' | 'draining' | 'ledger_unavailable'
