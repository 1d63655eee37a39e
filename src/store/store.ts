/** The contract of a store, for any database. */
import type { Log } from '../log.ts'
import type { AlertStore } from './alert-store.ts'
import type { BatchStore } from './batch-store.ts'
import type { ConfigReplica } from './config-replica.ts'
import type { ConfigStore } from './config-store.ts'
import type { IdentityStore } from './identity-store.ts'
import type { LedgerTarget } from './ledger-copy.ts'
import type { ClosedCall, ClosedRow } from './ledger-rows.ts'
import type {
  Leases,
  LedgerAudit,
  LedgerReader,
  LedgerUpkeep,
  LedgerWriter,
  Outbox,
  RefusalWriter,
  Space,
} from './ledger-store.ts'
import type { ReportReaders } from './report-store.ts'

export interface StorePlace {
  /** Files that a restore replaces. */
  readonly files: StoreFiles
  exists(): boolean
  /** Throws a ServiceError if the store does not exist or has another version. */
  open(options?: StoreOptions): Store
  /** Creates or migrates the store. The caller holds the data folder's lock. */
  serve(options: ServeOptions): Promise<ServedStore>
  /** No one else may use it. */
  openCopy(file: string, options?: { readonly?: boolean }): Promise<StoreCopy>
  /** Works for any version. Waits up to `busyMs` for a writer. */
  readRevocations(busyMs: number): Promise<Revocations>
  /** Newest first. */
  migrationCopies(): MigrationCopy[]
  /** Checks the first bytes; null if the file may be a backup. Throws the system's error. */
  explainFile(file: string): string | null
  /** A ServiceError if the file is to blame; otherwise the error itself. */
  explain(error: unknown): unknown
}

/** A copy of the database from just before a migration. */
export interface MigrationCopy {
  path: string
  madeMs: number
  /** The version that migrated the database; null if unknown. */
  madeBy: string | null
  /** Version of Tollgate that served it last; null if unknown. */
  version: string | null
  /** Applied migrations; empty if the copy can't be read. */
  migrations: string[]
}

/** In a plain copy of the folder, the log has the newest changes. */
export interface StoreFiles {
  main: string
  log: string
  /** Meaningless without the main file, including the log. */
  sidecars: readonly string[]
}

export interface StoreOptions {
  readonly?: boolean
  /** For long-running processes: releases everything on close. */
  isLook?: boolean
  /** Opens any version and state without changing files. */
  untouched?: 'served' | 'at_rest'
}

export interface Store {
  readonly config: ConfigStore
  readonly identity: IdentityStore
  readonly alerts: AlertStore
  readonly ledger: LedgerReader
  readonly reports: ReportReaders
  readonly audit: LedgerAudit
  /** Newest migration, recorded in journals. */
  readonly schema: string
  /** Differs after the store was replaced. */
  identify(): string
  space(): Space
  /** null if none. @param how `quick` skips comparing indexes with tables. */
  findDamage(how: 'quick' | 'all'): string | null
  /** Number of migrations. Throws `no_database` if empty, `schema_outdated`, `schema_newer`. */
  requireCurrent(): number
  /** Writes a consistent copy to an empty file. Throws the database's error. */
  copyTo(file: string): void
  /** Without a running server. Throws `already_served`, `no_room`. */
  compact(): { before_bytes: number; after_bytes: number }
  close(): void
}

export interface ServeOptions {
  /** Version recorded in the database. */
  version: string
  startedMs: number
  /** The folder belongs to a cluster node, so the outbox also gets changes from before `ship`. */
  hasJoined?: boolean
  /** Wall clock, ms. */
  now(): number
  log: Log
}

/** Where all earlier commits are durable. */
export type CheckpointResult = 'file' | 'log' | 'nowhere'

export interface ServedStore {
  readonly config: ConfigStore
  readonly identity: IdentityStore
  readonly alerts: AlertStore
  readonly batches: BatchStore
  readonly ledger: LedgerReader
  readonly writer: LedgerWriter
  readonly refusals: RefusalWriter
  /** For a cluster node, records ledger changes in the outbox from now on. Otherwise stops recording, and returns null. */
  ship(isNode: boolean): Outbox | null
  readonly leases: Leases
  /** True for a node of a cluster. */
  hasPosition(): boolean
  loadReplica(): Promise<ConfigReplica>
  /** For copying the ledger from or to another database. */
  loadCopy(): Promise<LedgerTarget>
  readonly upkeep: LedgerUpkeep
  /** Newest migration, recorded in journals. */
  readonly schema: string
  /** From now on, nothing waits for a lock, which would block the event loop. */
  begin(): void
  /** False if its files were deleted or replaced. */
  isThere(): boolean
  /** `log`: a reader, such as a replication, keeps the log in use. `nowhere`: unknown. */
  checkpoint(): Promise<CheckpointResult>
  /** Schedules checkpoints. */
  noteCommit(): void
  close(): void
}

export interface StoreCopy extends Disposable {
  readonly store: Store
  readonly writer: LedgerWriter
  /** Throws `schema_newer`; false if it is not a Tollgate store. */
  update(nowMs: number): boolean
  /** Its applied migrations, in order. */
  applied(): string[]
  /** Migrations that it lacks, in order. Throws `schema_newer`. */
  missing(): string[]
  /** Works for any version. */
  content(): CopyContent
  /** Applies the other store's revocations, also to a store of an older version. */
  keepRevocations(other: Revocations, nowMs: number): KeptRevocations
  /** Works for any version. */
  forgetSessions(): void
  /** Fails batches in progress. Works for any version. */
  failBatches(nowMs: number): void
  /** Closed requests, with their calls, that an earlier copy of this store, of any version, lacks or has open. In pages. */
  closedSince(copy: string): Iterable<ClosedRequest[]>
}

export interface ClosedRequest {
  row: ClosedRow
  /** Empty for a request with one call. */
  calls: ClosedCall[]
}

/** Sorted lists of content that an upgrade must keep, by kind. */
export type CopyContent = ReadonlyMap<string, readonly string[]>

export interface LedgerContent {
  requests: number
  /** When the newest request was created, ms; null if none. */
  newestMs: number | null
}

export interface Revocations {
  held: LedgerContent
  keys: KnownKeys
  people: KnownPeople
}

/** null = never. */
export interface KnownKeys {
  revokedMs: ReadonlyMap<string, number | null>
  secretEndsMs: ReadonlyMap<string, number | null>
  /** Keys that ended before may have been removed by retention; 0 = none. */
  keysFromMs: number
}

/** Empty for stores from before users existed. */
export interface KnownPeople {
  admins: readonly KnownAdmin[]
  tokens: ReadonlyMap<string, number | null>
  passkeys: readonly Record<string, string | number | null>[]
}

export interface KnownAdmin {
  id: string
  password_hash: string | null
  code_hash: string | null
  code_expires_ms: number | null
  disabled_ms: number | null
}

/** Names of keys, tokens, and users that stay revoked. */
export interface KeptRevocations {
  revoked: string[]
  secretsEnded: number
  /** Active, but rotated after the backup. */
  withoutSecret: string[]
  people: { disabled: string[]; tokens: string[] }
}
