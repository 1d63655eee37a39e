/** Catalog data of a store: effective rows, prices, versions, and writes. */
import type { Deadlines } from '../domain/deadlines.ts'
import type { DialectName, UpstreamSettings } from '../domain/dialects.ts'
import type { Feature, Modality, Origin, RouteSettings } from '../domain/models.ts'
import type { PricingItem } from '../domain/usage.ts'
import type { CatalogLayers } from './catalog-layers.ts'

export interface UpstreamRow {
  id: string
  dialect: DialectName
  /** No trailing slash; null if not needed. */
  baseUrl: string | null
  /** References such as `${OPENAI_API_KEY}` or `file:/run/secrets/openai`, resolved by the server. Never a secret. */
  apiKeyRef: string | readonly string[] | null
  local: boolean
  enabled: boolean
  deadlines: Partial<Deadlines>
  options: UpstreamSettings
  origin: Origin
  createdMs: number
  updatedMs: number
}

/** Encrypted by `vault.ts` for its binding; '' = must be entered again. */
export interface SealedCredential extends Pick<UpstreamRow, 'id' | 'dialect' | 'baseUrl' | 'options'> {
  /** From 1. */
  number: number
  sealed: string
}

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
  /** False: hidden from model lists, but can be called. */
  listed: boolean
  fromWildcard: boolean
  /** Facts from the provider's own list, which override public ones. */
  fromList: ListedFact[]
  origin: Origin
  createdMs: number
  updatedMs: number
}

/** Identified by all three names. */
export interface RouteRow {
  model: string
  upstream: string
  upstreamModel: string
  priority: number
  weight: number
  /** null: the model's price. */
  pricing: PricingItem[] | null
  priceId: string | null
  /** null: as the model. */
  contextLength: number | null
  maxOutputLength: number | null
  supportedFeatures: Feature[] | null
  options: RouteSettings
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

/** Never changed or removed: ledger rows refer to them. */
export interface PriceRow {
  id: string
  model: string
  /** Set for the price of one route. */
  upstream: string | null
  pricing: PricingItem[]
  createdMs: number
}

/** The effective rows, each kind in order of creation. */
export interface CatalogRows {
  upstreams: UpstreamRow[]
  models: ModelRow[]
  routes: RouteRow[]
  aliases: AliasRow[]
}

export interface CatalogVersion {
  /** From 1, never reused. */
  number: number
  atMs: number
  actor: string
  action: string
  subject: string
  created: number
  updated: number
  deleted: number
}

export interface KeptCatalog extends CatalogVersion {
  layers: CatalogLayers
}

export interface CatalogHistory {
  newest(): KeptCatalog | null
  find(number: number): KeptCatalog | null
}

/** Stored credentials stay while the binding is unchanged (`credential-binding.ts`); after that they must be entered again. */
export interface CatalogWrite {
  /** All layers; absent: unchanged. */
  layers?: CatalogLayers
  prices?: readonly PriceRow[]
  /** All credentials of an upstream, by its ID after this write. */
  credentials?: readonly { id: string; sealed: readonly string[] }[]
  /** Encrypted with another key; skipped if changed since. */
  resealed?: readonly { id: string; number: number; before: string; sealed: string }[]
  versions?: readonly KeptCatalog[]
  /** Lower numbers are deleted. */
  oldestVersion?: number
}
