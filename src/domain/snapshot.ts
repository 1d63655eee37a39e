/** The immutable configuration in memory, replaced as a whole after each change, so that no request sees half a change or waits for the disk. */
import type { Deadlines } from './deadlines.ts'
import type { DialectName, UpstreamOptions } from './dialects.ts'
import type { Budget, Limits } from './limits.ts'
import type { Feature, Model, Origin, RouteSettings } from './models.ts'
import { matches } from './text.ts'
import type { PricingItem } from './usage.ts'

export interface Access {
  /** `local`: free upstreams only. */
  scope: 'all' | 'local'
  /** Over resolved model IDs; empty = all. */
  models: string[]
}

/** Whether the list allows a model, whatever the scope. An empty list allows all. */
export const mayUse = ({ models }: Pick<Access, 'models'>, slug: string): boolean =>
  models.length === 0 || models.some((pattern) => matches(pattern, slug))

export interface Key extends Access {
  id: string
  name: string
  teamId: string | null
  /** Set if its user created it. */
  ownerId: string | null
  /** For fair share and queue turns: the owner's ID, or the key's own. */
  quotaId: string
  expiresMs: number | null
  revokedMs: number | null
  /** Empty = any. */
  allowedIps: string[]
  limits: Limits
  budget: Budget | null
}

/** Limits apply in addition to each key's. */
export interface Team extends Access {
  id: string
  name: string
  limits: Limits
  budget: Budget | null
}

export interface Spender {
  kind: 'key' | 'team'
  id: string
}

export interface Secret {
  key: Key
  lastFour: string
  expiresMs: number | null
}

export interface Upstream {
  id: string
  /** A newer version may have written an unknown one. */
  dialect: DialectName
  baseUrl: string | null
  local: boolean
  deadlines: Deadlines
  /** ms; null = the server's setting. */
  disconnectGraceMs: number | null
  /** The provider's, shared by all keys. */
  limits: Limits
  /** By the upstream's names. */
  prices: ReadonlyMap<string, ModelPrice>
  options: UpstreamOptions
  /** Variable of the credential. */
  variable: string | null
  /** Stored encrypted, or will be. */
  hasStoredCredential: boolean
  /** The first that resolved. */
  credential: string | null
  /** From 1. */
  credentialNumber: number
  /** Redacted from the upstream's messages. */
  secrets: readonly string[]
  /** In order. */
  credentials: readonly CredentialSource[]
  /** One upstream per credential, if several resolved. */
  each: readonly Upstream[] | null
  /** `ProcessSpec.hash`. */
  process: string | null
  /** For administrators; null if it can be called. */
  notReady: string | null
}

/** Empty = free. */
export interface ModelPrice {
  pricing: PricingItem[]
  priceId: string | null
}

/** Without its value. */
export interface CredentialSource {
  /** From 1. */
  number: number
  from: 'variable' | 'file' | 'typed_in'
  /** Variable, or path as configured; null if stored. */
  name: string | null
  /** Ends a sentence; null if it resolved. */
  problem: string | null
}

/** Its price is its own, else free if local, else its model's. */
export interface Target extends ModelPrice {
  model: string
  upstream: Upstream
  upstreamModel: string
  priority: number
  weight: number
  /** Never more than the model's. */
  maxOutputLength: number
  contextLength: number
  /** Supported by the route itself; the gateway adds missing `json_mode` and `structured_outputs`. */
  features: readonly Feature[]
  options: RouteSettings
  origin: Origin
}

/** Targets by priority. */
export interface CatalogModel {
  /** False: hidden, but can be called. */
  listed: boolean
  /** From a wildcard: listed only if an upstream is ready. */
  fromWildcard: boolean
  origin: Origin
  facts: Omit<Model, 'is_ready' | 'state' | 'tokens_per_second' | 'pricing'> & { pricing: PricingItem[] }
  targets: Target[]
}

export interface Alias {
  /** May not exist. */
  model: string
  listed: boolean
}

export interface Snapshot {
  revision: number
  secrets: ReadonlyMap<string, Secret>
  /** By owner ID. */
  playgrounds: ReadonlyMap<string, Key>
  teams: ReadonlyMap<string, Team>
  models: ReadonlyMap<string, CatalogModel>
  aliases: ReadonlyMap<string, Alias>
  upstreams: ReadonlyMap<string, Upstream>
}

/** `problem` ends a sentence. */
export type OpenedCredential = { credential: string } | { problem: string }

/** By upstream ID. */
export type OpenedCredentials = ReadonlyMap<string, readonly OpenedCredential[]>

export type Environment = Readonly<Record<string, string | undefined>>
