/**
 * The contract of a configuration store: keys with secrets, teams, catalog, settings, and audit log. Every implementation must pass the suite in `test/store/`;
 * `sqlite/` is one.
 *
 * A change is decided by a synchronous function over rows that no one else changes meanwhile, in one transaction: its rows, its audit row, and the revision +
 * 1, which running servers notice. If the function throws, nothing is changed.
 */
import type { AuditAction } from '../domain/changes.ts'
import type { LimitName, Period } from '../domain/limits.ts'
import type { Key, Team } from '../domain/snapshot.ts'
import type { Log } from '../log.ts'
import type { CatalogLayers } from './catalog-layers.ts'
import type {
  CatalogHistory,
  CatalogRows,
  CatalogVersion,
  CatalogWrite,
  KeptCatalog,
  PriceRow,
  SealedCredential,
} from './catalog-rows.ts'

export interface StoredSecret {
  /** SHA-256 of the whole secret, 64 lowercase hex digits. */
  hash: string
  lastFour: string
  createdMs: number
  /** End of a rotation's overlap. */
  expiresMs: number | null
}

/** Limits that an administrator set on a member's key, by column name: its owner may lower them but not lift them. All other limits are the owner's. */
export interface Ceilings extends Partial<Record<LimitName, number>> {
  scope?: 'local'
  models?: string[]
  /** Both or neither. */
  budget_nano_usd?: number
  budget_period?: Period
  allowed_ips?: string[]
  expires_ms?: number
}

export interface StoredKey extends Omit<Key, 'quotaId'> {
  ceilings: Ceilings
  /** True for the key that meters its owner's playground: it has no secret and is never listed. */
  hidden: boolean
  metadata: Record<string, string>
  createdMs: number
  /** Newest last. */
  secrets: StoredSecret[]
}

export interface StoredTeam extends Team {
  /** Maximum keys per member; null = unlimited. */
  maxKeys: number | null
  metadata: Record<string, string>
  createdMs: number
}

/** Oldest first. */
export interface KeyRows {
  keys: StoredKey[]
  teams: StoredTeam[]
}

/** Each row replaces the stored one; rows are never deleted, since the ledger refers to them. */
export type KeyWrite = Partial<KeyRows>

/** A consistent state of everything that a server needs. */
export interface Configuration extends KeyRows, CatalogRows {
  /** 0 before the first change. */
  revision: number
  sealed: SealedCredential[]
}

/** By key. */
export type Settings = Readonly<Record<string, string>>

/** null removes a row. */
export type SettingsWrite = Readonly<Record<string, string | null>>

/** Who makes a change, and when. */
export interface Actor {
  /** For the audit row: `cli`, `server`, or a user's ID. */
  actor: string
  nowMs: number
  /** State that the edit is based on (`domain/changes.ts`); absent: any. */
  revision?: string
}

/** For the audit row. */
export interface AuditEntry {
  action: AuditAction
  subject: string
  /** `before` and `after` (`domain/changes.ts`), and other details; never secrets. */
  detail: Record<string, unknown>
}

export interface Decided<Write, T> {
  value: T
  /** Always written; no new revision. */
  settings?: Settings
  /** null: no change, so no audit row and no new revision. */
  change: (AuditEntry & { write: Write }) | null
}

export interface AuditRow extends Omit<AuditEntry, 'action'> {
  id: string
  /** Usually an AuditAction; other versions may have had others. */
  action: string
  atMs: number
  actor: string
}

/** All conditions are optional. */
export interface AuditQuery {
  sinceMs?: number
  /** Any of these. */
  actors?: readonly string[]
  /** Such as `keys.edit`, or a group such as `keys`. */
  action?: string
  /** Any of these. */
  subjects?: readonly string[]
  /** Rows older than this ID. */
  before?: string
  limit?: number
}

export interface Watch {
  /** False while the last poll failed: the active configuration may be outdated. */
  healthy(): boolean
  stop(): void
}

/** For the services of keys and teams: all keys, or a member's own. */
export interface KeyStore extends Pick<ConfigStore, 'readKeys' | 'changeKeys'> {
  /** True for a member's own keys: their changes set no ceilings. */
  isOwn?: boolean
}

export interface ConfigStore {
  /** A consistent state. */
  read(): Promise<Configuration>
  readRevision(): Promise<number>
  readKeys(): Promise<KeyRows>
  /** The effective rows. */
  readCatalog(): Promise<CatalogRows>
  readLayers(): Promise<CatalogLayers>
  /** Stored credentials, which the rows don't contain. */
  readSealed(): Promise<SealedCredential[]>
  readSettings(): Promise<Settings>
  /** Oldest first. */
  readVersions(): Promise<CatalogVersion[]>
  /** Null if unknown or no longer kept. */
  readVersion(number: number): Promise<KeptCatalog | null>
  /** Newest first, in the order of the changes (`atMs` is when each began). */
  readAudit(query?: AuditQuery): Promise<AuditRow[]>
  /** All past and present prices of a model on any route, newest first. */
  readPrices(model: string): Promise<PriceRow[]>
  changeKeys<T>(by: Actor, decide: (rows: KeyRows) => Decided<KeyWrite, T>): Promise<T>
  changeCatalog<T>(
    by: Actor,
    decide: (layers: CatalogLayers, history: CatalogHistory) => Decided<CatalogWrite, T>,
  ): Promise<T>
  /** No new revision: servers read settings at startup. */
  changeSettings<T>(by: Actor, decide: (rows: Settings) => Decided<SettingsWrite, T>): Promise<T>
  /**
   * Calls `onChange` with the new revision, whoever made it, within 0.1 s, or once the previous call has resolved (then only with the newest). A failed call is
   * repeated; the first failure and the recovery are logged.
   *
   * @param revision the one already known.
   */
  watch(revision: number, onChange: (revision: number) => Promise<void>, log?: Log): Watch
}
