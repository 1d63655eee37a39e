/**
 * The contract of a store: all that an installation keeps, in no database's words. `open.ts` says where one is; `sqlite/` is the first.
 * Types only.
 */
import type { Log } from '../log.ts'
import type { ConfigStore } from './config-store.ts'
import type { IdentityStore } from './identity-store.ts'
import type { Leases, LedgerAudit, LedgerReader, LedgerUpkeep, LedgerWriter, Space } from './ledger-store.ts'
import type { FailureReader, RequestReader, UsageReader } from './report-store.ts'

/** Where a store is, before anybody has opened it. */
export interface StorePlace {
  /** Its files in the data folder, where it has any: what a restore puts away. */
  readonly files: StoreFiles
  exists(): boolean
  /** Opens it for a command or a report. Throws a ServiceError where a server has not made one yet, or it is of another version. */
  open(options?: StoreOptions): Store
  /** Makes it, or brings it to this version, for a server that holds the lock of its data folder. */
  serve(options: ServeOptions): Promise<ServedStore>
  /** Opens a file as a backup has it, or a copy of one. Whoever opens it is alone with it. */
  openCopy(file: string, options?: { readonly?: boolean }): Promise<StoreCopy>
  /** Reads of a store that a copy is to replace, whatever its version, who was shut out of it. Waits so long for whoever writes. */
  readRevocations(busyMs: number): Promise<Revocations>
  /** What keeps a file from being a backup, by its first bytes; null where nothing does. Throws what the system says. */
  explainFile(file: string): string | null
  /** Turns what an open store threw into a ServiceError where its file is to blame; anything else is returned as it is. */
  explain(error: unknown): unknown
}

/** Names of files in a data folder. A plain copy of the folder has the newest changes in the log. */
export interface StoreFiles {
  main: string
  log: string
  /** What belongs to the main file and has no meaning without it, the log among it. */
  beside: readonly string[]
}

export interface StoreOptions {
  readonly?: boolean
  /** For one look, in a process that goes on: nothing of it is left once it is closed. */
  isLook?: boolean
  /** For a look at whatever is there, of any version and state, which makes and changes nothing: beside a server, or with none. */
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
  /** Tells it from another one that has taken its place. */
  identify(): string
  /** What it takes of the disk. */
  space(): Space
  /** What is wrong with how it is stored; null where it is whole. @param how quick: not whether its indexes have what its tables have. */
  findDamage(how: 'quick' | 'all'): string | null
  /** Counts the migrations it has. Throws `no_database` where it is empty, `schema_outdated`, `schema_newer`. */
  requireCurrent(): number
  /** Writes all of it, as of one moment, into a file that is empty. Throws what the store says. */
  copyTo(file: string): void
  /** Gives its empty room back to the disk, where no server uses it. Throws `already_served`, `no_room`. */
  compact(): { before_bytes: number; after_bytes: number }
  /** Whoever opened it closes it. */
  close(): void
}

export interface ServeOptions {
  startedMs: number
  /** Wall clock, ms. */
  now(): number
  log: Log
}

/** Where all that was committed before has come, so that it outlives the machine. */
export type Reached = 'file' | 'log' | 'nowhere'

/** What a server needs of its store, which it alone serves from this data folder. */
export interface ServedStore {
  readonly config: ConfigStore
  readonly identity: IdentityStore
  readonly ledger: LedgerReader
  readonly writer: LedgerWriter
  readonly leases: Leases
  readonly upkeep: LedgerUpkeep
  /** By what the newest migration calls the rows of the ledger: a journal says it. */
  readonly schema: string
  /** From here on nothing waits within the store: the event loop would wait with it. */
  begin(): void
  /** Whether what is written to is still what others would open. */
  isThere(): boolean
  /** `log`: somebody reads in it all the time, such as a replication. `nowhere`: that cannot be said. */
  checkpoint(): Promise<Reached>
  /** Counts a transaction, so that a checkpoint comes in time. */
  noteCommit(): void
  close(): void
}

/** A copy of a store in one file: no server has it. */
export interface StoreCopy extends Disposable {
  /** Its parts. */
  readonly store: Store
  readonly writer: LedgerWriter
  /** Brings it to this version. Throws `schema_newer`; false where it is no store of ours. */
  update(nowMs: number): boolean
  /** Lets nobody in whom the other store would not have let in by the same proof. */
  keepRevocations(other: Revocations, nowMs: number): Kept
}

/** What a ledger holds. */
export interface Held {
  requests: number
  /** When its newest request was made, ms; null where it has none. */
  newestMs: number | null
}

/** Who is let into a store, and who no more. */
export interface Revocations {
  held: Held
  keys: KnownKeys
  people: KnownPeople
}

/** When each key was revoked, and until when each of its secrets works; null = no end. */
export interface KnownKeys {
  revokedMs: ReadonlyMap<string, number | null>
  secretEndsMs: ReadonlyMap<string, number | null>
  /** Keys that had ended before then may be missing: retention removes them. 0 = none was removed. */
  keysFromMs: number
}

/** How people and scripts come in; nothing, where a store is older than that. */
export interface KnownPeople {
  admins: readonly KnownAdmin[]
  /** When each token was revoked, by its id. */
  tokens: ReadonlyMap<string, number | null>
  /** By their columns. */
  passkeys: readonly Record<string, string | number | null>[]
}

export interface KnownAdmin {
  id: string
  password_hash: string | null
  code_hash: string | null
  code_expires_ms: number | null
  disabled_ms: number | null
}

/** Who was kept from coming back, by name. */
export interface Kept {
  /** Keys that stay revoked. */
  revoked: string[]
  /** Secrets that stay ended. */
  secretsEnded: number
  /** Keys that are in force and have no secret left: another one was made after the backup. */
  withoutSecret: string[]
  people: { disabled: string[]; tokens: string[] }
}
