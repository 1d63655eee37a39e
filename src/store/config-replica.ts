/**
 * A node's copy of a cluster's configuration, which is a log of changes (`config-entry.ts`). A node decides a change from its copy, commits it to the log, and
 * applies changes in the order of the log.
 */
import type { AuditRow } from './config-store.ts'

/** Position in a cluster's history. Numbers repeat after PostgreSQL loses entries; `last` tells such histories apart. */
export interface Position {
  /** ID of the cluster. */
  generation: string
  /** Number of the newest applied entry; 0 = none. */
  seq: number
  /** ID of this entry; without entries, of the cluster. */
  last: string
}

export interface LoggedEntry {
  seq: number
  id: string
  format: number
  /** JSON of a `ConfigEntry`. */
  text: string
}

/** Format of entries. Raise it if an earlier version could not apply a new field or kind exactly. */
export const ENTRY_FORMAT = 1

export interface ChangeLog {
  /**
   * Commits an entry that was decided at `basis`. False if another node was first. Then the copy has caught up, and the change must be decided again.
   * Throws a ServiceError.
   */
  commit(basis: Position, text: string): Promise<boolean>
  /** Applies changes of other nodes; gives up soon. Never throws. */
  catchUp(): Promise<void>
  /** Returns the keys that no node has in its ledger. Throws a PostgresRefusal. */
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
  /** Name of the newest migration. */
  schema: string
  parts: SnapshotPart[]
}

/** Changes in a replaced copy that the cluster lacks. */
export interface Lost {
  /** Newest first. */
  audit: AuditRow[]
  /** IDs of keys whose revocation the cluster lacks. */
  keys: string[]
  tokens: string[]
}

export interface ConfigReplica {
  /** null without a cluster. */
  position(): Position | null
  /** True without keys, users, and credentials: replacing the copy loses nothing. */
  isEmpty(): boolean
  /** Starts a cluster with this configuration. */
  found(position: Position): void
  /** Leaves the cluster: later changes are local. */
  leave(): void
  /** From now on, all changes of this connection's stores go through the log. */
  changeThrough(log: ChangeLog): void
  /**
   * Applies missing entries in one transaction, and notifies running parts. Stops before the first entry that is unknown or out of order, and returns it.
   */
  apply(entries: readonly LoggedEntry[]): Promise<LoggedEntry | null>
  /** A consistent snapshot, also during changes. null without a cluster. */
  readSnapshot(): Promise<ConfigSnapshot | null>
  /** Replaces the configuration. Throws `cluster_newer` without changing anything. */
  replace(snapshot: ConfigSnapshot, entries: readonly LoggedEntry[]): Promise<Lost>
}
