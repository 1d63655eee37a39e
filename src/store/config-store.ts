/**
 * The contract of a store of configuration: keys with their secrets, teams, the catalogue's rows, settings, and a record
 * of who changed what. The services in `keys/` and `catalog/` and the server work with any store that passes the suite
 * in `test/store/`; `sqlite/` is the first. Types only.
 *
 * A change is decided by a pure, synchronous function over rows that nobody else changes meanwhile, and is one
 * transaction: what was decided, its audit row, and the revision + 1 by which running servers notice. What the function
 * throws undoes everything and reaches the caller.
 */
import type { AuditAction } from '../domain/audit.ts'
import type { Deadlines, DialectName, Feature, Modality, Origin, UpstreamSettings } from '../domain/settings.ts'
import type { Key, Team } from '../domain/snapshot.ts'
import type { PricingItem } from '../domain/usage.ts'
import type { Log } from '../log.ts'

export interface StoredSecret {
  /** SHA-256 of the whole secret, 64 lower-case hex digits. */
  hash: string
  lastFour: string
  createdMs: number
  /** The end of a rotation's overlap. */
  expiresMs: number | null
}

export interface StoredKey extends Key {
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

/** Each becomes as it is given, whole; what is not given stays. Nothing is ever deleted: the ledger names them. */
export type KeyWrite = Partial<KeyRows>

export interface UpstreamRow {
  id: string
  dialect: DialectName
  /** Without a slash at its end; null where the dialect needs none. */
  baseUrl: string | null
  /** A reference such as `${OPENAI_API_KEY}`, resolved by the server. Never a secret itself. */
  apiKeyRef: string | null
  local: boolean
  enabled: boolean
  deadlines: Partial<Deadlines>
  options: UpstreamSettings
  origin: Origin
  createdMs: number
  updatedMs: number
}

export interface ModelRow {
  slug: string
  name: string
  ownedBy: string
  contextLength: number
  maxOutputLength: number
  inputModalities: Modality[]
  outputModalities: Modality[]
  supportedFeatures: Feature[]
  pricing: PricingItem[]
  priceId: string | null
  enabled: boolean
  /** False where the catalogue hides it from lists of models: it can still be asked for. */
  listed: boolean
  /** Whether it is one of those that a wildcard stands for. */
  fromWildcard: boolean
  origin: Origin
  createdMs: number
  updatedMs: number
}

/** Named by model, upstream and upstreamModel together. */
export interface RouteRow {
  model: string
  upstream: string
  upstreamModel: string
  priority: number
  weight: number
  /** Null where the route costs what its model costs. */
  pricing: PricingItem[] | null
  priceId: string | null
  /** Null where the route can do what its model can. */
  contextLength: number | null
  maxOutputLength: number | null
  supportedFeatures: Feature[] | null
  enabled: boolean
  origin: Origin
}

export interface AliasRow {
  alias: string
  model: string
  listed: boolean
  origin: Origin
}

/** Only ever added: a ledger row names the price that it was charged by. */
export interface PriceRow {
  id: string
  model: string
  /** Set for a price that belongs to one route. */
  upstream: string | null
  pricing: PricingItem[]
  createdMs: number
}

/** Each in the order in which its rows were made. */
export interface CatalogRows {
  upstreams: UpstreamRow[]
  models: ModelRow[]
  routes: RouteRow[]
  aliases: AliasRow[]
}

export interface TableWrite<Row> {
  create: Row[]
  update: Row[]
  delete: Row[]
}

/** How the catalogue was changed, of which its rows as they stood afterwards are kept. */
export interface CatalogVersion {
  /** From 1 on, and never given twice. */
  number: number
  atMs: number
  actor: string
  action: string
  subject: string
  /** How many rows were changed, over all tables; `adopted` got another owner and nothing else. */
  created: number
  updated: number
  deleted: number
  adopted: number
}

export interface KeptCatalog extends CatalogVersion {
  rows: CatalogRows
}

/** What is kept of earlier states. */
export interface CatalogHistory {
  newest(): KeptCatalog | null
  find(number: number): KeptCatalog | null
}

/** Routes of a model or an upstream that is deleted go with it. */
export type CatalogWrite = { [Table in keyof CatalogRows]: TableWrite<CatalogRows[Table][number]> } & {
  prices: PriceRow[]
  /** What is kept from now on. */
  versions?: readonly KeptCatalog[]
  /** Versions of a lower number are forgotten. */
  oldestVersion?: number
}

/** All that a server serves by, as of one moment. */
export interface Configuration extends KeyRows, CatalogRows {
  /** 0 before the first change. */
  revision: number
}

/** Rows of the settings table, by key. */
export type Settings = Readonly<Record<string, string>>

/** Who changes something, and when. */
export interface Actor {
  /** For the audit row: `cli`, `server`, or an administrator's id. */
  actor: string
  nowMs: number
}

/** What was done, for the audit row. */
export interface AuditEntry {
  action: AuditAction
  subject: string
  /** `before` and `after` of what changed (`domain/difference.ts`), and what else tells of it: nothing secret. */
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
  actor?: string
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

export interface ConfigStore {
  /** Everything, as of one moment. */
  read(): Promise<Configuration>
  readKeys(): Promise<KeyRows>
  readCatalog(): Promise<CatalogRows>
  /** The ids of upstreams that have a credential which an administrator typed in; the rows do not have it. */
  readSealed(): Promise<string[]>
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
    decide: (rows: CatalogRows, history: CatalogHistory) => Decided<CatalogWrite, T>,
  ): Promise<T>
  /**
   * Calls `onChange` with each new revision, whoever made it, well within a tenth of a second. Where that fails it is
   * called again, and the log hears of the first failure and of the recovery.
   *
   * @param revision the one that is known already.
   */
  watch(revision: number, onChange: (revision: number) => Promise<void>, log?: Log): Watch
}
