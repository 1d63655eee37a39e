/**
 * The contract of a configuration store; implementations pass the suite in `test/store/`.
 *
 * A synchronous function decides a change. One transaction writes its rows, its audit row, and the revision + 1, which running servers notice. If the function
 * throws, nothing is changed.
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
  /** SHA-256 of the secret, as hex. */
  hash: string
  lastFour: string
  createdMs: number
  /** End of a rotation's overlap. */
  expiresMs: number | null
}

/** Limits an administrator set on a member's key, by column name: its owner may lower but not lift them. */
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
  /** True for the key of its owner's playground, which has no secret and is never listed. */
  hidden: boolean
  metadata: Record<string, string>
  createdMs: number
  /** Newest last. */
  secrets: StoredSecret[]
}

export interface StoredTeam extends Team {
  /** Per member; null = unlimited. */
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

export interface Configuration extends KeyRows, CatalogRows {
  /** 0 before the first change. */
  revision: number
  sealed: SealedCredential[]
}

export type Settings = Readonly<Record<string, string>>

/** null removes a row. */
export type SettingsWrite = Readonly<Record<string, string | null>>

export interface Actor {
  /** `cli`, `server`, or a user's ID. */
  actor: string
  nowMs: number
  /** Basis of the edit (`domain/changes.ts`); absent: any. */
  revision?: string
}

export interface AuditEntry {
  action: AuditAction
  subject: string
  /** `before` and `after` (`domain/changes.ts`), and more; never secrets. */
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
  /** Other versions may have other actions. */
  action: string
  atMs: number
  actor: string
}

export interface AuditQuery {
  sinceMs?: number
  actors?: readonly string[]
  /** Such as `keys.edit` or `keys`. */
  action?: string
  subjects?: readonly string[]
  before?: string
  limit?: number
}

export interface Watch {
  /** False while polling fails: the active configuration may be outdated. */
  healthy(): boolean
  stop(): void
}

export interface KeyStore extends Pick<ConfigStore, 'readKeys' | 'changeKeys'> {
  /** A member's own keys: their changes set no ceilings. */
  isOwn?: boolean
}

export interface ConfigStore {
  read(): Promise<Configuration>
  readRevision(): Promise<number>
  readKeys(): Promise<KeyRows>
  readCatalog(): Promise<CatalogRows>
  readLayers(): Promise<CatalogLayers>
  readSealed(): Promise<SealedCredential[]>
  readSettings(): Promise<Settings>
  /** Oldest first. */
  readVersions(): Promise<CatalogVersion[]>
  /** null if no longer kept. */
  readVersion(number: number): Promise<KeptCatalog | null>
  /** Newest first, in the order of the changes (`atMs` is when each began). */
  readAudit(query?: AuditQuery): Promise<AuditRow[]>
  /** Of any route, newest first. */
  readPrices(model: string): Promise<PriceRow[]>
  changeKeys<T>(by: Actor, decide: (rows: KeyRows) => Decided<KeyWrite, T>): Promise<T>
  changeCatalog<T>(
    by: Actor,
    decide: (
      layers: CatalogLayers,
      history: CatalogHistory,
      readSealed: () => SealedCredential[],
    ) => Decided<CatalogWrite, T>,
  ): Promise<T>
  /** No new revision: servers read settings at startup. */
  changeSettings<T>(by: Actor, decide: (rows: Settings) => Decided<SettingsWrite, T>): Promise<T>
  /**
   * Calls `onChange` for new revisions within 0.1 s, one call at a time, then with the newest. A failed call is repeated; the first failure and the recovery
   * are logged.
   *
   * @param revision the newest known revision.
   */
  watch(revision: number, onChange: (revision: number) => Promise<void>, log?: Log): Watch
}
