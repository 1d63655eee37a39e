/**
 * The contract of a store of configuration: keys with their secrets, teams, the catalogue's rows, settings, and a record
 * of who changed what. The services in `keys/` and `catalog/` and the server work with any store that passes the suite
 * in `test/store/`; `sqlite/` is the first. Types only.
 *
 * A change is decided by a pure, synchronous function over rows that nobody else changes meanwhile, and is one
 * transaction: what was decided, its audit row, and the revision + 1 by which running servers notice. What the function
 * throws undoes everything and reaches the caller.
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
  /** SHA-256 of the whole secret, 64 lower-case hex digits. */
  hash: string
  lastFour: string
  createdMs: number
  /** The end of a rotation's overlap. */
  expiresMs: number | null
}

/**
 * Bounds that somebody else than its owner has set on a member's key, by the names of columns. The owner may lower them and not lift them; a
 * bound that is not here is the owner's to change.
 */
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
  /** Whether it is what the playground of its owner is metered by: it has no secret, and no list shows it. */
  hidden: boolean
  metadata: Record<string, string>
  createdMs: number
  /** Newest last. */
  secrets: StoredSecret[]
}

export interface StoredTeam extends Team {
  /** How many keys each of its members may have; null = any number. */
  maxKeys: number | null
  metadata: Record<string, string>
  createdMs: number
}

/** Oldest first. */
export interface KeyRows {
  keys: StoredKey[]
  teams: StoredTeam[]
}

/** Each becomes as it is given, whole; what is not given stays. No change deletes any: the ledger names them. */
export type KeyWrite = Partial<KeyRows>

/** All that a server serves by, as of one moment. */
export interface Configuration extends KeyRows, CatalogRows {
  /** 0 before the first change. */
  revision: number
  sealed: SealedCredential[]
}

/** Rows of the settings table, by key. */
export type Settings = Readonly<Record<string, string>>

/** Rows become as they are given; null takes one away. */
export type SettingsWrite = Readonly<Record<string, string | null>>

/** Who changes something, and when. */
export interface Actor {
  /** For the audit row: `cli`, `server`, or an administrator's id. */
  actor: string
  nowMs: number
  /** Of the state that an edit was made from (`domain/changes.ts`); absent: whatever it is now. */
  revision?: string
}

/** What was done, for the audit row. */
export interface AuditEntry {
  action: AuditAction
  subject: string
  /** `before` and `after` of what changed (`domain/changes.ts`), and what else tells of it: nothing secret. */
  detail: Record<string, unknown>
}

export interface Decided<Write, T> {
  value: T
  /** Written in any case; of itself it changes no configuration. */
  settings?: Settings
  /** Null where nothing is to change: no audit row, no new revision. */
  change: (AuditEntry & { write: Write }) | null
}

export interface AuditRow extends Omit<AuditEntry, 'action'> {
  id: string
  /** Mostly one of ours: a version before or after this one may have had another. */
  action: string
  atMs: number
  actor: string
}

/** Which audit rows are wanted; what is left out does not matter. */
export interface AuditQuery {
  sinceMs?: number
  /** By any of these. */
  actors?: readonly string[]
  /** Such as `keys.edit`, or what stands before the dot. */
  action?: string
  /** Of any of these. */
  subjects?: readonly string[]
  /** Older than the row of this id. */
  before?: string
  /** At most so many. */
  limit?: number
}

export interface Watch {
  /** False while the last look failed: the configuration in force may be old. */
  healthy(): boolean
  stop(): void
}

/** What the services of keys and teams work with: all of them, or a member's own. */
export interface KeyStore extends Pick<ConfigStore, 'readKeys' | 'changeKeys'> {
  /** Whether they are a member's own, who changes them: what that member sets is no ceiling. */
  isOwn?: boolean
}

export interface ConfigStore {
  /** Everything, as of one moment. */
  read(): Promise<Configuration>
  /** That of `read`, by itself. */
  readRevision(): Promise<number>
  readKeys(): Promise<KeyRows>
  /** The rows that count. */
  readCatalog(): Promise<CatalogRows>
  /** What they are merged from. */
  readLayers(): Promise<CatalogLayers>
  /** Credentials that administrators have typed in; the rows do not have them. */
  readSealed(): Promise<SealedCredential[]>
  readSettings(): Promise<Settings>
  /** Oldest first. */
  readVersions(): Promise<CatalogVersion[]>
  /** Null where it is not kept any more, or never was. */
  readVersion(number: number): Promise<KeptCatalog | null>
  /** Newest first, in the order of the changes: their times are when each began. */
  readAudit(query?: AuditQuery): Promise<AuditRow[]>
  /** Every price that a model has had, on whatever route, newest first. */
  readPrices(model: string): Promise<PriceRow[]>
  changeKeys<T>(by: Actor, decide: (rows: KeyRows) => Decided<KeyWrite, T>): Promise<T>
  changeCatalog<T>(
    by: Actor,
    decide: (layers: CatalogLayers, history: CatalogHistory) => Decided<CatalogWrite, T>,
  ): Promise<T>
  /** Of itself it is no new revision: a server reads them when it starts. */
  changeSettings<T>(by: Actor, decide: (rows: Settings) => Decided<SettingsWrite, T>): Promise<T>
  /**
   * Calls `onChange` with a new revision, whoever made it, well within a tenth of a second, or once the call before has resolved: of
   * several revisions made meanwhile, with the newest. Where that fails it is
   * called again, and the log hears of the first failure and of the recovery.
   *
   * @param revision the one that is known already.
   */
  watch(revision: number, onChange: (revision: number) => Promise<void>, log?: Log): Watch
}
