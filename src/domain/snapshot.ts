/**
 * Immutable in-memory configuration that every request reads: keys by hash, models by ID with their targets. Replaced as a whole after each change, so that a
 * request never sees half a change, and never waits for the disk.
 */
import type { Deadlines } from './deadlines.ts'
import type { DialectName, UpstreamOptions } from './dialects.ts'
import type { Budget, Limits } from './limits.ts'
import type { Feature, Model, Origin, RouteSettings } from './models.ts'
import type { PricingItem } from './usage.ts'

/** Allowed models and upstreams. */
export interface Access {
  /** `local`: only free upstreams. */
  scope: 'all' | 'local'
  /** Patterns over resolved model IDs; empty = all models. */
  models: string[]
}

export interface Key extends Access {
  id: string
  name: string
  teamId: string | null
  /** The user who created the key for themselves. */
  ownerId: string | null
  /** Whose fair-share limit and queue turns its requests count toward: its owner's, or else its own. */
  quotaId: string
  expiresMs: number | null
  revokedMs: number | null
  /** IP addresses and ranges in the form of `ip.ts`; empty = any. */
  allowedIps: string[]
  limits: Limits
  budget: Budget | null
}

/** Keys that share limits and a budget, which apply in addition to each key's own. */
export interface Team extends Access {
  id: string
  name: string
  limits: Limits
  budget: Budget | null
}

/** A key or team, with limits, a budget, and spend. */
export interface Spender {
  kind: 'key' | 'team'
  id: string
}

/** An active secret and its key. */
export interface Secret {
  key: Key
  lastFour: string
  expiresMs: number | null
}

export interface Upstream {
  id: string
  /** May be unknown, if a newer version wrote it; then the upstream is not ready. */
  dialect: DialectName
  baseUrl: string | null
  local: boolean
  deadlines: Deadlines
  /** How long usage is read after a client disconnects, ms; null = the server's setting. */
  disconnectGraceMs: number | null
  /** Limits of the provider, shared by all keys. */
  limits: Limits
  /** Prices of models that have a route, by the upstream's names. */
  prices: ReadonlyMap<string, ModelPrice>
  options: UpstreamOptions
  /** Variable that holds its credential; null if it needs none, or it comes from elsewhere. */
  variable: string | null
  /** True if its credential is stored encrypted, or will be. */
  hasStoredCredential: boolean
  /** The resolved credential (the first of several); null if none is needed or none resolved. */
  credential: string | null
  /** Which of its credentials this is, from 1. */
  credentialNumber: number
  /** All resolved credentials, to be redacted from anything the upstream says. */
  secrets: readonly string[]
  /** Sources of its credentials, in order; empty if it needs none. */
  credentials: readonly CredentialSource[]
  /** If several credentials resolved: the upstream once with each. */
  each: readonly Upstream[] | null
  /** If Tollgate starts its server: `ProcessSpec.hash`. */
  process: string | null
  /** Why it cannot be called, for administrators; null if it can. */
  notReady: string | null
}

/** Price of a call; empty = free. */
export interface ModelPrice {
  pricing: PricingItem[]
  priceId: string | null
}

/** Source of a credential, without its value. */
export interface CredentialSource {
  /** From 1. */
  number: number
  from: 'variable' | 'file' | 'typed_in'
  /** Variable name, or file path as configured; null if stored. */
  name: string | null
  /** Why it did not resolve, as the end of a sentence; null if it did. */
  problem: string | null
}

/** A route with everything that a call needs. Its price is its own, else free on a local upstream, else its model's. */
export interface Target extends ModelPrice {
  model: string
  upstream: Upstream
  upstreamModel: string
  priority: number
  weight: number
  /** From the route, never more than the model's. */
  maxOutputLength: number
  contextLength: number
  /** Features of the model that the route supports itself; the gateway adds enforcement for missing `json_mode` or `structured_outputs`. */
  features: readonly Feature[]
  /** How to call the upstream's model, if the catalog says so. */
  options: RouteSettings
  /** Of its route. */
  origin: Origin
}

/** Facts from the model's row or its server, and its enabled targets by priority. */
export interface CatalogModel {
  /** False: hidden from model lists, but can be called. */
  listed: boolean
  /** True if created by a wildcard: listed only if one of its upstreams is ready. */
  fromWildcard: boolean
  origin: Origin
  facts: Omit<Model, 'is_ready' | 'state' | 'tokens_per_second' | 'pricing'> & { pricing: PricingItem[] }
  targets: Target[]
}

/** Another name for a model. */
export interface Alias {
  /** The model's ID; the model may not exist. */
  model: string
  /** False: hidden from model lists. */
  listed: boolean
}

export interface Snapshot {
  revision: number
  secrets: ReadonlyMap<string, Secret>
  /** Keys without a secret that meter playgrounds, by owner ID. */
  playgrounds: ReadonlyMap<string, Key>
  teams: ReadonlyMap<string, Team>
  models: ReadonlyMap<string, CatalogModel>
  aliases: ReadonlyMap<string, Alias>
  upstreams: ReadonlyMap<string, Upstream>
}

/** A decrypted credential, or why it is unusable, as the end of a sentence. */
export type OpenedCredential = { credential: string } | { problem: string }

/** By upstream ID, in order. */
export type OpenedCredentials = ReadonlyMap<string, readonly OpenedCredential[]>

export type Environment = Readonly<Record<string, string | undefined>>
