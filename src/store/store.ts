/** The contract of a store: all that an installation keeps, for any database. `open.ts` finds one; `sqlite/` implements it. */
import type { Log } from '../log.ts'
import type { ConfigStore } from './config-store.ts'
import type { IdentityStore } from './identity-store.ts'
import type { Leases, LedgerAudit, LedgerReader, LedgerUpkeep, LedgerWriter, Space } from './ledger-store.ts'
import type { FailureReader, RequestReader, UsageReader } from './report-store.ts'

/** A store before it is opened. */
export interface StorePlace {
  /** Files in the data folder, if any, which a restore replaces. */
  readonly files: StoreFiles
  exists(): boolean
  /** For a command or report. Throws a ServiceError if no server has created it yet, or its version differs. */
  open(options?: StoreOptions): Store
  /** Creates it or migrates it to this version, for a server that holds the data folder's lock. */
  serve(options: ServeOptions): Promise<ServedStore>
  /** Opens a backup, or a copy of one; no one else may use it. */
  openCopy(file: string, options?: { readonly?: boolean }): Promise<StoreCopy>
  /** Reads revocations from a store of any version, which a copy is to replace. Waits up to `busyMs` for a writer. */
  readRevocations(busyMs: number): Promise<Revocations>
  /** Why a file cannot be a backup, by its first bytes; null if it can. Throws the system's error. */
  explainFile(file: string): string | null
  /** Converts a database error to a ServiceError if the file is to blame; returns others unchanged. */
  explain(error: unknown): unknown
}

/** Names in the data folder. In a plain copy of the folder, the log has the newest changes. */
export interface StoreFiles {
  main: string
  log: string
  /** Files that belong to the main one and mean nothing without it, including the log. */
  beside: readonly string[]
}

export interface StoreOptions {
  readonly?: boolean
  /** For one read in a long-running process: releases all resources on close. */
  isLook?: boolean
  /** Reads a store of any version or state without any change, with a server running or not. */
  untouched?: 'served' | 'at_rest'
}

export interface Store {
  readonly config: ConfigStore
  readonly identity: IdentityStore
  readonly ledger: LedgerReader
  readonly requests: RequestReader
  readonly usage: UsageReader
  readonly failures: FailureReader
  readonly audit: LedgerAudit
  /** Distinguishes it from a store that has replaced it. */
  identify(): string
  /** Disk usage. */
  space(): Space
  /** Describes damage; null if none. @param how `quick` skips comparing indexes with tables. */
  findDamage(how: 'quick' | 'all'): string | null
  /** Returns the number of migrations. Throws `no_database` if empty, `schema_outdated`, `schema_newer`. */
  requireCurrent(): number
  /** Writes a consistent copy into an empty file. Throws the database's error. */
  copyTo(file: string): void
  /** Returns unused space to the disk; no server may be running. Throws `already_served`, `no_room`. */
  compact(): { before_bytes: number; after_bytes: number }
  close(): void
}

export interface ServeOptions {
  startedMs: number
  /** Wall clock, ms. */
  now(): number
  log: Log
}

/** Where all earlier commits are durable. */
export type Reached = 'file' | 'log' | 'nowhere'

/** What a server needs of its store. */
export interface ServedStore {
  readonly config: ConfigStore
  readonly identity: IdentityStore
  readonly ledger: LedgerReader
  readonly writer: LedgerWriter
  readonly leases: Leases
  readonly upkeep: LedgerUpkeep
  /** Name of the newest migration, which journals record. */
  readonly schema: string
  /** From now on no operation waits for a lock, since that would block the event loop. */
  begin(): void
  /** False if the open files were deleted or replaced. */
  isThere(): boolean
  /** `log`: a reader, such as a replication, keeps the log in use. `nowhere`: unknown. */
  checkpoint(): Promise<Reached>
  /** Counts a transaction, to schedule checkpoints. */
  noteCommit(): void
  close(): void
}

/** A copy of a store in one file, which no server uses. */
export interface StoreCopy extends Disposable {
  readonly store: Store
  readonly writer: LedgerWriter
  /** Migrates it to this version. Throws `schema_newer`; false if it is not a Tollgate store. */
  update(nowMs: number): boolean
  /** Applies the other store's revocations to this copy. */
  keepRevocations(other: Revocations, nowMs: number): Kept
}

/** Content of a ledger. */
export interface Held {
  requests: number
  /** When the newest request was created, ms; null if none. */
  newestMs: number | null
}

/** What a store has revoked or disabled. */
export interface Revocations {
  held: Held
  keys: KnownKeys
  people: KnownPeople
}

/** When each key was revoked, and when each secret expires; null = never. */
export interface KnownKeys {
  revokedMs: ReadonlyMap<string, number | null>
  secretEndsMs: ReadonlyMap<string, number | null>
  /** Keys that ended before this time may have been removed by retention; 0 = none. */
  keysFromMs: number
}

/** Users and tokens; empty for stores from before there were any. */
export interface KnownPeople {
  admins: readonly KnownAdmin[]
  /** Revocation time by token ID. */
  tokens: ReadonlyMap<string, number | null>
  /** By column. */
  passkeys: readonly Record<string, string | number | null>[]
}

export interface KnownAdmin {
  id: string
  password_hash: string | null
  code_hash: string | null
  code_expires_ms: number | null
  disabled_ms: number | null
}

/** Names of what stays revoked or disabled. */
export interface Kept {
  /** Keys that stay revoked. */
  revoked: string[]
  /** Secrets that stay expired. */
  secretsEnded: number
  /** Active keys without any secret left: they were rotated after the backup. */
  withoutSecret: string[]
  people: { disabled: string[]; tokens: string[] }
}
