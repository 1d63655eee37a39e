/**
 * The contract of an open store: all that an installation keeps, in no database's words. `open.ts` opens the one that a URL names;
 * `sqlite/` is the first. Types only.
 */
import type { ConfigStore } from './config-store.ts'
import type { IdentityStore } from './identity-store.ts'
import type { LedgerAudit, LedgerReader, Space } from './ledger-store.ts'
import type { FailureReader, RequestReader, UsageReader } from './report-store.ts'

export interface Store {
  readonly config: ConfigStore
  readonly identity: IdentityStore
  readonly ledger: LedgerReader
  readonly requests: RequestReader
  readonly usage: UsageReader
  readonly failures: FailureReader
  readonly audit: LedgerAudit
  /** What it takes of the disk. */
  space(): Space
  /** Writes all of it, as of one moment, into a file that is empty. Throws what the store says. */
  copyTo(file: string): void
  /** Gives its empty room back to the disk, where no server uses it. Throws `already_served`, `no_room`. */
  compact(): { before_bytes: number; after_bytes: number }
  /** Whoever opened it closes it. */
  close(): void
}
