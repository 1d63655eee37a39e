/** Small snapshots for unit tests, with overrides. */

import { DEFAULT_DEADLINES } from '../../src/domain/deadlines.ts'
import { NO_LIMITS } from '../../src/domain/limits.ts'
import type { CatalogModel, Key, Snapshot, Target, Team, Upstream } from '../../src/domain/snapshot.ts'
import { DEFAULT_OPTIONS } from '../../src/upstreams/dialects/dialects.ts'

export const toKey = (fields: Partial<Key> = {}): Key => ({
  id: 'k1',
  name: 'test',
  scope: 'all',
  teamId: null,
  expiresMs: null,
  revokedMs: null,
  ownerId: null,
  quotaId: fields.ownerId ?? fields.id ?? 'k1',
  models: [],
  allowedIps: [],
  limits: NO_LIMITS,
  budget: null,
  ...fields,
})

export const toTeam = (fields: Partial<Team> = {}): Team => ({
  id: 't1',
  name: 'crew',
  scope: 'all',
  models: [],
  limits: NO_LIMITS,
  budget: null,
  ...fields,
})

export function toTarget(fields: Partial<Upstream> = {}): Target {
  const upstream: Upstream = {
    id: 'paid',
    dialect: 'openai',
    baseUrl: 'http://127.0.0.1:1/v1',
    local: false,
    deadlines: DEFAULT_DEADLINES,
    disconnectGraceMs: null,
    limits: NO_LIMITS,
    prices: new Map(),
    options: DEFAULT_OPTIONS,
    variable: null,
    hasStoredCredential: false,
    credential: null,
    credentialNumber: 1,
    secrets: [fields.credential ?? []].flat(),
    credentials: fields.variable
      ? [{ number: 1, from: 'variable', name: fields.variable, problem: fields.credential ? null : 'it is not set' }]
      : [],
    each: null,
    process: null,
    notReady: null,
    ...fields,
  }
  return {
    model: 'acme/large',
    upstream,
    upstreamModel: 'large-v1',
    priority: 0,
    weight: 1,
    pricing: [],
    priceId: null,
    maxOutputLength: 1_000,
    contextLength: 8_192,
    features: ['tools'],
    options: {},
    origin: 'file',
  }
}

export function toModel(slug: string, targets: Target[]): CatalogModel {
  return {
    facts: {
      id: slug,
      object: 'model',
      owned_by: 'acme',
      created: 1_700_000_000,
      name: slug,
      context_length: 8192,
      max_output_length: 1_000,
      input_modalities: ['text'],
      output_modalities: ['text'],
      supported_features: [],
      pricing: [],
    },
    listed: true,
    fromWildcard: false,
    origin: 'file',
    targets,
  }
}

export function toSnapshot(models: CatalogModel[], aliases: Record<string, string> = {}): Snapshot {
  return {
    revision: 1,
    secrets: new Map(),
    playgrounds: new Map(),
    teams: new Map(),
    models: new Map(models.map((model) => [model.facts.id, model])),
    aliases: new Map(Object.entries(aliases).map(([alias, model]) => [alias, { model, listed: true }])),
    upstreams: new Map(),
  }
}
