/**
 * The immutable in-memory view of the configuration that every request reads: keys by hash, models by slug, and for
 * each model its targets. Swapped whole after each change, so no request ever sees half a change, and none ever waits
 * for the disk to learn who may call what. A store builds it. Types only.
 */
import type { Deadlines } from './deadlines.ts'
import type { DialectName, UpstreamOptions } from './dialects.ts'
import type { Budget, Limits } from './limits.ts'
import type { Feature, Model, Origin, RouteSettings } from './models.ts'
import type { PricingItem } from './usage.ts'

/** Which models may be used, and by which upstreams. */
export interface Access {
  /** `local`: only by those that cost no money. */
  scope: 'all' | 'local'
  /** Patterns over resolved slugs; empty = every model. */
  models: string[]
}

export interface Key extends Access {
  id: string
  name: string
  teamId: string | null
  /** Of a key that somebody who signs in has made for themselves: who that is. */
  ownerId: string | null
  /** Whose share of the server its requests take, and whose turns: its owner's, else its own. */
  quotaId: string
  expiresMs: number | null
  revokedMs: number | null
  /** Addresses and ranges that it may be used from, as `ip.ts` writes them; empty = everywhere. */
  allowedIps: string[]
  limits: Limits
  budget: Budget | null
}

/** Keys that share limits and a budget. A request of one of them passes by its own rules and by these. */
export interface Team extends Access {
  id: string
  name: string
  limits: Limits
  budget: Budget | null
}

/** A key or a team: whose limits and budget, and whose spending. */
export interface Spender {
  kind: 'key' | 'team'
  id: string
}

/** A secret in force, and the key that it opens. */
export interface Secret {
  key: Key
  lastFour: string
  expiresMs: number | null
}

export interface Upstream {
  id: string
  /** A newer version may have written one that this version does not know; such an upstream is not ready. */
  dialect: DialectName
  baseUrl: string | null
  local: boolean
  deadlines: Deadlines
  /** How long its calls are read on once a client has left, ms; null = as the server's setting says. */
  disconnectGraceMs: number | null
  /** What its provider allows, all keys together. */
  limits: Limits
  /** What its models cost that have a route, by its own names for them. */
  prices: ReadonlyMap<string, ModelPrice>
  options: UpstreamOptions
  /** The variable that its credential is in; null where it needs none, or it comes from elsewhere. */
  variable: string | null
  /** Whether its credential was typed in, or is to be: it is kept sealed. */
  hasStoredCredential: boolean
  /** The resolved credential, of several the first; null where the upstream needs none or none did resolve. */
  credential: string | null
  /** Which of its credentials that is, from 1 on. */
  credentialNumber: number
  /** Every credential that resolved: nothing that it says may have one in it. */
  secrets: readonly string[]
  /** Where its credentials come from, in their order; none where it needs none. */
  credentials: readonly CredentialSource[]
  /** Where several resolved: the upstream once with each of them. */
  each: readonly Upstream[] | null
  /** Where its server is started here: of what it is run by (`ProcessSpec.hash`). */
  process: string | null
  /** Why this upstream cannot be called, in words for an administrator; null when it can. */
  notReady: string | null
}

/** By what a call is charged; empty = nothing. */
export interface ModelPrice {
  pricing: PricingItem[]
  priceId: string | null
}

/** Where a credential comes from, without a word of it. */
export interface CredentialSource {
  /** From 1 on. */
  number: number
  from: 'variable' | 'file' | 'typed_in'
  /** The variable's name, or the file's path as it was named; null for one that was typed in. */
  name: string | null
  /** Why there is none, in words that go on a sentence; null where there is. */
  problem: string | null
}

/** A route resolved to everything that a call needs. Its price is its own, else nothing on a local upstream, else its model's. */
export interface Target extends ModelPrice {
  model: string
  upstream: Upstream
  upstreamModel: string
  priority: number
  weight: number
  /** Both as its route says, and never more than its model has. */
  maxOutputLength: number
  contextLength: number
  /** What it does by itself, of what its model does; the gateway adds enforcement where `json_mode` or `structured_outputs` is missing. */
  features: readonly Feature[]
  /** How its upstream's model is asked, where the catalogue says so. */
  options: RouteSettings
  /** Of its route. */
  origin: Origin
}

/** The facts of a model, as its row tells them, or its own server, and its enabled targets in order of priority. */
export interface CatalogModel {
  /** False where the catalogue hides it from lists of models: it can still be asked for. */
  listed: boolean
  /** One that a wildcard stands for: lists show it where some upstream has what it takes to be asked. */
  fromWildcard: boolean
  origin: Origin
  facts: Omit<Model, 'is_ready' | 'state' | 'tokens_per_second' | 'pricing'> & { pricing: PricingItem[] }
  targets: Target[]
}

/** Another name for a model. */
export interface Alias {
  /** The model's slug. Nothing says that there is such a model. */
  model: string
  /** False where the catalogue hides it from lists of models. */
  listed: boolean
}

export interface Snapshot {
  revision: number
  secrets: ReadonlyMap<string, Secret>
  /** The keys without a secret by which playgrounds are metered, by their owners' ids. */
  playgrounds: ReadonlyMap<string, Key>
  teams: ReadonlyMap<string, Team>
  models: ReadonlyMap<string, CatalogModel>
  aliases: ReadonlyMap<string, Alias>
  upstreams: ReadonlyMap<string, Upstream>
}

/** A credential that was kept sealed, or why it cannot be used, in words that go on a sentence. */
export type OpenedCredential = { credential: string } | { problem: string }

/** By the ids of upstreams, those of each in their order. */
export type OpenedCredentials = ReadonlyMap<string, readonly OpenedCredential[]>

export type Environment = Readonly<Record<string, string | undefined>>
