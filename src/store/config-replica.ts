/**
 * A node's copy of a cluster's configuration, which is a log of changes (`config-entry.ts`). Changes are decided over the copy, committed to the log, and
 * applied in the order of the log.
 */
import type { AuditRow } from './config-store.ts'

/** In a cluster's history. An entry has its number in one history only: `last` tells histories apart after one was lost in part. */
export interface Position {
  /** Of the cluster. */
  generation: string
  /** Of the newest applied entry; 0 = none. */
  seq: number
  /** ID of that entry; of the cluster if none. */
  last: string
}

export interface LoggedEntry {
  seq: number
  id: string
  format: number
  /** JSON of a `ConfigEntry`. */
  text: string
}

/** Of entries: raised when an earlier version could not apply a new field or kind exactly. */
export const ENTRY_FORMAT = 1

export interface ChangeLog {
  /**
   * Commits an entry that was decided at `basis`. False if others were first: the copy has caught up, and it must be decided again. Throws a ServiceError.
   */
  commit(basis: Position, text: string): Promise<boolean>
  /** Applies what others have committed; gives up soon. Never throws. */
  catchUp(): Promise<void>
  /** Those of these keys that no node has in its ledger. Throws a PostgresRefusal. */
  findUnused(keyIds: readonly string[]): Promise<string[]>
}

/** Rows of one table. Bytes are `{ base64 }`. */
export interface SnapshotPart {
  table: string
  columns: string[]
  rows: unknown[][]
}

export interface ConfigSnapshot {
  position: Position
  /** Of the newest migration. */
  schema: string
  parts: SnapshotPart[]
}

/** What a replaced copy had, and the cluster doesn't. */
export interface Lost {
  /** Newest first. */
  audit: AuditRow[]
  /** Revoked here only, by ID. */
  keys: string[]
  tokens: string[]
}

export interface ConfigReplica {
  /** null: of no cluster. */
  position(): Position | null
  /** Nothing in it would be missed: no keys, users, or credentials. */
  isEmpty(): boolean
  /** Its configuration begins a cluster. */
  found(position: Position): void
  /** It belongs to no cluster, and changes without others again. */
  leave(): void
  /** From now on all changes of this connection's stores go through the log. */
  changeThrough(log: ChangeLog): void
  /**
   * Applies those that it lacks, in one transaction, and tells running parts. Stops before the first that it doesn't know or that doesn't follow: returns it.
   */
  apply(entries: readonly LoggedEntry[]): Promise<LoggedEntry | null>
  /** Consistent, while changes go on. null: of no cluster. */
  readSnapshot(): Promise<ConfigSnapshot | null>
  /** Replaces the configuration. Throws `cluster_newer`, and then nothing is changed. */
  replace(snapshot: ConfigSnapshot, entries: readonly LoggedEntry[]): Promise<Lost>
}
