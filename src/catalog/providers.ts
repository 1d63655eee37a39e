/**
 * Providers that `upstreams add` knows by name: presets, and known providers with a usable address. Also detects local
 * servers and provider keys.
 */

import { closest } from '../domain/closest.ts'
import type { DialectName, UpstreamSettings } from '../domain/dialects.ts'
import { quote } from '../domain/explain.ts'
import type { ListedModel } from '../domain/model-server.ts'
import { ServiceError } from '../domain/service-error.ts'
import { count } from '../domain/text.ts'
import type { PricingItem } from '../domain/usage.ts'
import type { UpstreamRow } from '../store/catalog-rows.ts'
import { toReferences, toVariable } from '../store/credential-binding.ts'
import { allPresets, findPreset, type Preset } from '../store/presets.ts'
import {
  type Discovered,
  type DiscoverOptions,
  fits,
  isServed,
  type ModelSelector,
  onlyUsable,
  toDiscovered,
  toFound,
  toSelector,
  toSlug,
} from './discover.ts'
import { findAt, type KnownProvider, type KnownProviders, loadKnown } from './known.ts'

export interface Provider {
  /** For commands. */
  id: string
  /** Display name. */
  name: string
  dialect: DialectName
  /** Null if customer-specific. */
  baseUrl: string | null
  /** An example of such an address. */
  example: string | null
  /** May hold its credential; the usual one first. */
  variables: string[]
  /** Its name in the known facts. */
  known: string
  /** Vendor part of model IDs if the provider's name for a model has none. */
  vendor: string
  /** How far its model list is trusted; null = only names. */
  modelList: Preset['model_list'] | null
  options: UpstreamSettings
  local: boolean
}

/** Presets with another name at models.dev, or with the models of only one vendor. */
const ALSO: Readonly<Record<string, { known: string; vendor?: string }>> = {
  'azure-deployments': { known: 'azure' },
  bedrock: { known: 'amazon-bedrock' },
  vertex: { known: 'google-vertex' },
  'vertex-gemini': { known: 'google-vertex', vendor: 'google' },
  together: { known: 'togetherai' },
  fireworks: { known: 'fireworks-ai' },
  moonshot: { known: 'moonshotai' },
  qwen: { known: 'alibaba' },
}

/** @throws `provider_unknown`, with a suggestion */
export function findProvider(known: KnownProviders, id: string): Provider {
  const all = allProviders(known)
  const found = all.find((one) => one.id === id) ?? all.find((one) => one.known === id)
  if (found) return found
  const names = all.map((one) => one.id)
  throw new ServiceError(
    { kind: 'provider_unknown' },
    `Unknown provider ${quote(id)}${closest(id, names)}. To add any OpenAI-compatible provider: tollgate upstreams add --name NAME --base-url https://…/v1. Known providers: ${names.join(', ')}.`,
  )
}

/** By host; null if none. Local ports can have any server, so they don't count. */
export function findByAddress(known: KnownProviders, baseUrl: string): Provider | null {
  const hostOf = (text: string | null) => (text === null ? null : (URL.parse(text)?.host ?? null))
  const host = hostOf(baseUrl)
  return allProviders(known).find((one) => host !== null && !one.local && hostOf(one.baseUrl) === host) ?? null
}

function allProviders(known: KnownProviders): Provider[] {
  const presets = Object.entries(allPresets()).map(([id, preset]) => toPresetProvider(known, id, preset))
  const taken = new Set(presets.map((one) => one.known))
  const others = Object.entries(known).flatMap(([id, one]) => (taken.has(id) ? [] : (toKnownProvider(id, one) ?? [])))
  return [...presets, ...others]
}

function toPresetProvider(known: KnownProviders, id: string, preset: Preset): Provider {
  const name = ALSO[id]?.known ?? id
  const more = Object.hasOwn(known, name) ? (known[name]?.env ?? []).filter(isSecret) : []
  return {
    ...{
      id,
      name: preset.name,
      dialect: preset.dialect,
      known: name,
      vendor: preset.local ? 'local' : (ALSO[id]?.vendor ?? id),
    },
    ...{ baseUrl: preset.base_url ?? null, example: preset.example ?? null, options: { preset: id } },
    ...{
      modelList: preset.model_list ?? null,
      variables: [...new Set([...(preset.env ? [preset.env] : []), ...more])],
    },
    local: preset.local === true,
  }
}

/** Known facts also list variables for regions. */
const isSecret = (variable: string) => /(KEY|TOKEN)$/.test(variable)

function toKnownProvider(id: string, { api, npm, name = id, env = [] }: KnownProvider): Provider | null {
  // Some addresses have a customer-specific part.
  if (!api || api.includes('$')) return null
  return {
    ...{ id, name, dialect: npm === '@ai-sdk/anthropic' ? 'anthropic' : 'openai', known: id, vendor: id },
    ...{ baseUrl: api.replace(/\/+$/, ''), example: null, options: {} },
    ...{ modelList: null, variables: env.filter(isSecret) },
    local: false,
  }
}

export interface LocalServer {
  /** Preset name. */
  preset: string
  name: string
  baseUrl: string
}

export interface FoundServer extends LocalServer {
  /** The upstream at its address; null if none. */
  upstream: string | null
  /** Name to use when adding it. */
  id: string
}

export interface FoundProvider {
  preset: string
  name: string
  variable: string
}

type Row = Pick<UpstreamRow, 'id' | 'baseUrl' | 'options' | 'apiKeyRef'>

/** Gives servers without an upstream a unique name. */
export function toFoundServers(servers: readonly LocalServer[], rows: readonly Row[]): FoundServer[] {
  const taken = new Set(rows.map(({ id }) => id))
  return servers.map((server) => {
    const upstream = rows.find((row) => isAt(row, server))?.id ?? null
    if (upstream !== null) return { ...server, upstream, id: upstream }
    const { preset, baseUrl } = server
    const id = taken.has(preset) ? `${preset}-${new URL(baseUrl).port || 'local'}` : preset
    taken.add(id)
    return { ...server, upstream, id }
  })
}

/** True if it is at its preset's address. */
export const isAtUsual = ({ preset, baseUrl }: Pick<LocalServer, 'preset' | 'baseUrl'>): boolean =>
  findPreset(preset)?.base_url === baseUrl

/** Providers whose usual variable is set and that no upstream uses. */
export function findProviders(rows: readonly Row[], isSet: (variable: string) => boolean): FoundProvider[] {
  const used = new Set(rows.flatMap(({ apiKeyRef }) => toReferences(apiKeyRef).map(toVariable)))
  return Object.entries(allPresets()).flatMap(([preset, { name, env, example, local }]) =>
    env && !local && !example && isSet(env) && !used.has(env) ? { preset, name, variable: env } : [],
  )
}

function isAt({ baseUrl, options }: Row, server: LocalServer): boolean {
  const own = baseUrl ?? (options.preset === undefined ? null : (findPreset(options.preset)?.base_url ?? null))
  return own !== null && URL.parse(own)?.origin === URL.parse(server.baseUrl)?.origin
}

/** @throws `list_failed` */
export type AskModels = () => Promise<ListedModel[]>

export interface FindOptions {
  provider: Pick<Provider, 'name' | 'known' | 'modelList'> | null
  vendor: string
  known: KnownProviders
  /** Names, patterns, or `NAME=SLUG`; empty = all chat models. */
  patterns: readonly string[]
  ask: AskModels
}

type Asked = Pick<UpstreamRow, 'id' | 'dialect' | 'local'>

/** Finds models of an existing upstream. Throws like `findModels`. */
export async function findMore(
  row: Asked & Pick<UpstreamRow, 'baseUrl' | 'options'>,
  options: Pick<FindOptions, 'patterns' | 'ask'>,
): Promise<Discovered> {
  return findModels(row, { ...options, ...(await toFindOptions(row)) })
}

/** Facts about an upstream's provider. */
export async function toFindOptions({
  id,
  baseUrl,
  options: { preset },
}: Pick<UpstreamRow, 'id' | 'baseUrl' | 'options'>) {
  const known = await loadKnown()
  const provider = preset === undefined ? findByAddress(known, baseUrl ?? '') : findProvider(known, preset)
  return { provider, vendor: provider?.vendor ?? id, known }
}

export interface OfferedModel {
  /** The upstream's name for it. */
  upstreamModel: string
  /** Suggested model ID; null if its name makes none. */
  slug: string | null
  name: string
  /** Null if unknown. */
  contextLength: number | null
  inputModalities: readonly string[]
  outputModalities: readonly string[]
  supportedFeatures: readonly string[]
  /** Empty if unknown. */
  pricing: PricingItem[]
  /** True if the model chats, or has another endpoint and a known price. */
  isUsual: boolean
}

/** All models that an upstream lists, with known facts. Throws `list_failed`. */
export async function listOffered(
  row: Asked & Pick<UpstreamRow, 'baseUrl' | 'options'>,
  ask: AskModels,
): Promise<{ models: OfferedModel[]; notes: string[] }> {
  const { provider, vendor, known } = await toFindOptions(row)
  const modelList = provider?.modelList ?? null
  const listed = await ask()
  if (modelList === 'not_deployed')
    return { models: [], notes: [`${provider?.name} doesn't list deployments. Add each by its name.`] }
  const options: DiscoverOptions = {
    ...{ upstream: row.id, dialect: row.dialect, local: row.local },
    ...{ vendor, known, modelList, provider: provider?.known ?? null, selectors: [] },
  }
  const notes: string[] = []
  const models = onlyUsable(listed, options, notes).map((model): OfferedModel => {
    const slug = toSlug(model.id, vendor)
    const { model: found, isAssumed } = toFound(slug ?? model.id, model, options)
    const { name, contextLength, inputModalities, outputModalities, supportedFeatures, pricing } = found
    return {
      ...{ upstreamModel: model.id, slug, name, contextLength: isAssumed ? null : contextLength },
      ...{ inputModalities, outputModalities, supportedFeatures, pricing, isUsual: isServed(model, options) },
    }
  })
  return { models, notes }
}

/**
 * @throws `list_failed`, and `invalid` if a name or pattern matches nothing, or if the provider lists no deployments
 */
export async function findModels(upstream: Asked, options: FindOptions): Promise<Discovered> {
  const { ask, provider, vendor, known } = options
  const selectors = options.patterns.map(toSelector)
  const isNamed = selectors.length > 0 && selectors.every(({ pattern }) => !pattern.includes('*'))
  const modelList = provider?.modelList ?? null
  if (modelList === 'not_deployed' && !isNamed) throw notDeployed(provider?.name ?? upstream.id)
  const notes: string[] = []
  const read = await ask().catch((error): null => {
    if (!isNamed || !isWithoutList(error)) throw error
    notes.push(`Couldn't list its models, so they are added as named. ${error.message}`)
    return null
  })
  const isRead = read !== null && modelList !== 'not_deployed'
  const listed = isRead ? read : selectors.map((selector) => ({ id: toOwnName(selector, options) }))
  for (const selector of selectors) requireFit(selector, isRead ? listed : null, vendor)
  const { id, dialect, local } = upstream
  const found = toDiscovered(listed, {
    upstream: id,
    dialect,
    vendor,
    provider: provider?.known ?? null,
    ...{ modelList, local, known },
    selectors,
  })
  if (found.models.length === 0)
    throw new ServiceError(
      { kind: 'list_failed', why: 'none' },
      `${[...found.notes, `${id} has no models that can be added`].join(' ')}. No changes made.`,
    )
  return { ...found, notes: [...notes, ...found.notes] }
}

const notDeployed = (name: string) =>
  new ServiceError(
    { kind: 'invalid', field: 'models' },
    `${name} doesn't list deployments. Name each deployment and its model as --models NAME=SLUG, such as --models chat=openai/gpt-4o. No changes made.`,
  )

const isWithoutList = (error: unknown): error is ServiceError =>
  error instanceof ServiceError && error.failure.kind === 'list_failed' && error.failure.why !== 'credential'

/** The provider's name for a model, even if it was selected by model ID. */
function toOwnName({ pattern, slug }: ModelSelector, { provider, vendor, known }: FindOptions): string {
  if (slug !== null || provider === null || !pattern.startsWith(`${vendor}/`)) return pattern
  const rest = pattern.slice(vendor.length + 1)
  const isKnown = (name: string) => findAt(known, provider.known, name) !== undefined
  return isKnown(rest) && !isKnown(pattern) ? rest : pattern
}

/** @param listed null without a list */
function requireFit(selector: ModelSelector, listed: readonly ListedModel[] | null, vendor: string): void {
  const { pattern } = selector
  const at = selector.slug === null && !listed?.some(({ id }) => id === pattern) ? pattern.lastIndexOf('=') : -1
  if (at >= 0)
    throw new ServiceError(
      { kind: 'invalid', field: 'models' },
      `In ${quote(pattern)}, ${quote(pattern.slice(at + 1))} is not a valid model ID, such as openai/gpt-4o. No changes made.`,
    )
  if (listed === null) return
  const all = listed.map(({ id }) => ({ id, slug: toSlug(id, vendor) }))
  if (all.some(({ id, slug }) => fits(selector, id, slug))) return
  const names = all.slice(0, 1_000).flatMap(({ id, slug }) => (slug === null ? [id] : [id, slug]))
  throw new ServiceError(
    { kind: 'invalid', field: 'models' },
    `None of its ${count(listed.length, 'model')} matches ${quote(pattern)}${closest(pattern, names)}. No changes made.`,
  )
}
