/**
 * What a catalogue declares, once it is read, checked and complete: the plain value between `file.ts`, which makes it,
 * and `plan.ts`, which compares it with the tables. Types only.
 */

import type { Feature, Modality } from '../domain/model.ts'
import type { Deadlines, UpstreamSettings } from '../domain/settings.ts'
import type { PricingItem } from '../domain/usage.ts'

export interface DeclaredUpstream {
  id: string
  dialect: string
  /** Without a slash at its end; null where the dialect needs none. */
  baseUrl: string | null
  /** A reference such as `${OPENAI_API_KEY}`, never a secret. */
  apiKeyRef: string | null
  local: boolean
  enabled: boolean
  deadlines: Partial<Deadlines>
  options: UpstreamSettings
}

export interface DeclaredRoute {
  upstream: string
  upstreamModel: string
  priority: number
  weight: number
  /** Null where the route costs what its model costs. */
  pricing: PricingItem[] | null
  /** Null where the route can do what its model can. */
  contextLength: number | null
  maxOutputLength: number | null
  supportedFeatures: Feature[] | null
  enabled: boolean
}

/** The public facts of a model. */
export interface Facts {
  name: string
  contextLength: number
  maxOutputLength: number
  inputModalities: Modality[]
  outputModalities: Modality[]
  supportedFeatures: Feature[]
  pricing: PricingItem[]
}

export interface DeclaredModel extends Facts {
  slug: string
  ownedBy: string
  enabled: boolean
  /** False for one that a wildcard stands for. */
  listed: boolean
  /** Null where the catalogue does not say; the row then keeps the time at which it was made. */
  createdMs: number | null
  routes: DeclaredRoute[]
}

export interface Catalog {
  upstreams: DeclaredUpstream[]
  models: DeclaredModel[]
  aliases: { alias: string; model: string }[]
}

/** A problem in a catalogue file: where, and one sentence. */
export interface Issue {
  segments: (string | number)[]
  message: string
}
