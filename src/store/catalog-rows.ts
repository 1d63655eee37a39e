/**
 * The catalog as a store gives it: the rows that count (`catalog-layers.ts` has what they are merged from), the prices and versions that were, and what is written of all that at once. Types
 * only; `config-store.ts` says what a store does with them.
 */
import type { Deadlines } from '../domain/deadlines.ts'
import type { DialectName, UpstreamSettings } from '../domain/dialects.ts'
import type { Feature, Modality, Origin, RouteSettings } from '../domain/models.ts'
import type { PricingItem } from '../domain/usage.ts'
import type { CatalogLayers } from './catalog-layers.ts'

export interface UpstreamRow {
  id: string
  dialect: DialectName
  /** Without a slash at its end; null where the dialect needs none. */
  baseUrl: string | null
  /**
   * A reference such as `${OPENAI_API_KEY}` or `file:/run/secrets/openai`, resolved by the server, or several. Never a secret itself:
   * one that was typed in is kept apart.
   */
  apiKeyRef: string | readonly string[] | null
  local: boolean
  enabled: boolean
  deadlines: Partial<Deadlines>
  options: UpstreamSettings
  origin: Origin
  createdMs: number
  updatedMs: number
}

/** A credential that was typed in for an upstream, as `vault.ts` seals it for where that is; '' = it is to be typed in again. */
export interface SealedCredential extends Pick<UpstreamRow, 'id' | 'dialect' | 'baseUrl' | 'options'> {
  /** Of those of its upstream, from 1 on. */
  number: number
  sealed: string
}

/** What a provider's own list can say of a model; of what it can, each feature by itself. */
export type ListedFact =
  | 'contextLength'
  | 'maxOutputLength'
  | 'inputModalities'
  | 'outputModalities'
  | 'pricing'
  | Feature

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
  /** What of it its provider's own list has said, over which no public facts win. */
  fromList: ListedFact[]
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
  options: RouteSettings
  /** As of a model; of a route, its price alone counts. */
  fromList: ListedFact[]
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

/** The rows that count, each kind in the order in which they were made. */
export interface CatalogRows {
  upstreams: UpstreamRow[]
  models: ModelRow[]
  routes: RouteRow[]
  aliases: AliasRow[]
}

/** How the catalogue was changed, of which its rows as they stood afterwards are kept. */
export interface CatalogVersion {
  /** From 1 on, and never given twice. */
  number: number
  atMs: number
  actor: string
  action: string
  subject: string
  /** How many rows were changed, over all kinds. */
  created: number
  updated: number
  deleted: number
}

export interface KeptCatalog extends CatalogVersion {
  layers: CatalogLayers
}

/** What is kept of earlier states. */
export interface CatalogHistory {
  newest(): KeptCatalog | null
  find(number: number): KeptCatalog | null
}

/**
 * A credential that was typed in stays with its upstream for as long as that is at the same place (`place.ts`), after which it is to be
 * typed in again, and has no reference.
 */
export interface CatalogWrite {
  /** What the layers are from now on, all of them; absent: as they are. */
  layers?: CatalogLayers
  prices?: readonly PriceRow[]
  /** Credentials that were typed in, all of an upstream's, by the ids of upstreams as they are after this write. */
  credentials?: readonly { id: string; sealed: readonly string[] }[]
  /** The same ones, sealed by another secret; not where one was changed since. */
  resealed?: readonly { id: string; number: number; before: string; sealed: string }[]
  /** What is kept from now on. */
  versions?: readonly KeptCatalog[]
  /** Versions of a lower number are forgotten. */
  oldestVersion?: number
}
