/** Completes checked catalog entries with defaults and known facts. */
import { DEADLINE_NAMES, DEADLINES, type Deadlines } from '../domain/deadlines.ts'
import { type DialectName, USUAL_DIALECT } from '../domain/dialects.ts'
import { ENDPOINT_MODALITIES, type Modality } from '../domain/models.ts'
import { modeOf } from '../domain/tariff.ts'
import { TIMER_MS, toMs } from '../domain/time.ts'
import { PRICE_NAMES, type PricingItem } from '../domain/usage.ts'
import type { AliasRow, ModelRow, RouteRow, UpstreamRow } from '../store/catalog-rows.ts'
import { findPreset } from '../store/presets.ts'
import { findDialect } from '../upstreams/dialects/dialects.ts'
import { type Entry, isLocal, toEntry, toItems } from './entry.ts'
import {
  FACT_FIELDS,
  type ModelEntry,
  type PricingEntry,
  Route,
  toColumns,
  toOptions,
  Upstream,
  type UpstreamEntry,
} from './fields.ts'
import { findFacts, findRouteSettings, type KnownProviders } from './known.ts'
import { toProcessHash } from './process.ts'

export type DeclaredUpstream = Omit<UpstreamRow, 'origin' | 'createdMs' | 'updatedMs'>

export type DeclaredRoute = Omit<RouteRow, 'model' | 'priceId' | 'origin'>

export type Facts = Pick<ModelRow, (typeof FACT_FIELDS)[number][0] | 'pricing'>

export interface DeclaredModel extends Omit<ModelRow, 'priceId' | 'origin' | 'createdMs' | 'updatedMs'> {
  /** If null, the row keeps its creation time. */
  createdMs: number | null
  routes: DeclaredRoute[]
}

export interface Catalog {
  upstreams: DeclaredUpstream[]
  models: DeclaredModel[]
  aliases: Omit<AliasRow, 'origin'>[]
}

export const FREE: PricingItem[] = [{ prompt: '0', completion: '0', input_cache_read: '0' }]

export const isFree = (pricing: readonly PricingItem[] = []) =>
  pricing.every((item) =>
    Object.entries(item).every(
      ([name, value]) => !PRICE_NAMES.some((price) => price === name) || !/[1-9]/.test(String(value)),
    ),
  )

/** The entry must have passed every check. */
export function toUpstream(id: string, entry: UpstreamEntry): DeclaredUpstream {
  const { dialect: said, base_url: baseUrl, api_key: apiKey, enabled = true, deadlines: given } = entry
  const { process: _, ...rest } = toOptions(Upstream, entry)
  const deadlines: Partial<Deadlines> = {}
  for (const name of DEADLINE_NAMES) {
    const ms = toMs(given?.[DEADLINES[name].field] ?? '', TIMER_MS)
    if (ms !== null) deadlines[name] = ms
  }
  const apiKeyRef = apiKey ?? null
  const dialect = said ?? toPresetDialect(rest.preset)
  const hash = toProcessHash(entry)
  const options = hash === undefined ? rest : { ...rest, process: hash }
  return {
    id,
    dialect,
    baseUrl: baseUrl?.replace(/\/+$/, '') ?? null,
    apiKeyRef,
    local: isLocal(entry),
    enabled,
    deadlines,
    options,
  }
}

export const toPresetDialect = (preset: string | undefined): DialectName =>
  (preset === undefined ? undefined : findPreset(preset)?.dialect) ?? USUAL_DIALECT

/** Assumed maximum output tokens of endpoints that may have any. */
const OUTPUT: Partial<Record<Modality, number>> = { transcription: 2_000, realtime: 4_096 }

/** Models of other endpoints write no tokens, and 1 is the minimum. */
const assumedFor = (modality: Modality) =>
  ({
    outputModalities: [modality],
    maxOutputLength: OUTPUT[modality] ?? 1,
    supportedFeatures: [],
  }) satisfies Pick<Facts, 'outputModalities' | 'maxOutputLength' | 'supportedFeatures'>

export const OF_EMBEDDINGS = assumedFor('embeddings')
export const OF_REALTIME = {
  ...assumedFor('realtime'),
  inputModalities: ['text', 'audio'],
} satisfies Partial<Facts>

export function assumedOf({ output_modalities: made }: Entry): Partial<Facts> {
  const [modality, more] = toItems(made)
  const found = ENDPOINT_MODALITIES.find((each) => each === modality)
  return found && more === undefined ? assumedFor(found) : {}
}

export function lacksFacts(entry: Entry, upstreams: Entry): boolean {
  const assumed = assumedOf(entry)
  const isMissing = ([fact, field]: (typeof FACT_FIELDS)[number]) =>
    entry[field] === undefined && assumed[fact] === undefined
  const lacks = FACT_FIELDS.some(isMissing) || lacksPrice(entry, upstreams)
  return (
    lacks ||
    toItems(entry.routes)
      .map(toEntry)
      .some((route) => lacksSettings(route, upstreams))
  )
}

/** True if the dialect has several ways to request reasoning and the route chooses none. */
const lacksSettings = ({ upstream, thinking }: Entry, upstreams: Entry): boolean =>
  thinking === undefined &&
  typeof upstream === 'string' &&
  Object.hasOwn(upstreams, upstream) &&
  findDialect(toDialect(toEntry(upstreams[upstream])))?.hasWaysToThink === true

/** The entry may have problems. */
const toDialect = ({ dialect, preset }: Entry) =>
  dialect ?? (typeof preset === 'string' ? toPresetDialect(preset) : null)

/** The entry must have passed every check. Null if a fact is missing. */
export function toModel(
  slug: string,
  entry: ModelEntry,
  upstreams: Entry,
  known: KnownProviders,
): DeclaredModel | null {
  const facts: Partial<Facts> = { ...assumedOf(entry), ...findFacts(known, slug, entry.routes), ...toOwnFacts(entry) }
  const routes = entry.routes.map((route) =>
    toRoute(lacksSettings(route, upstreams) ? { ...findRouteSettings(known, slug, route), ...route } : route),
  )
  // A disabled model needs no price yet.
  const unknown = entry.enabled === false ? [] : undefined
  const pricing = lacksPrice(entry, upstreams)
    ? (facts.pricing ?? unknown)
    : (toPrices(entry.pricing) ?? toFallbackPrice(routes))
  const complete = { ...facts, pricing }
  if (!hasEveryFact(complete)) return null
  return {
    ...complete,
    slug,
    ownedBy: entry.owned_by ?? slug.slice(0, slug.indexOf('/')),
    enabled: entry.enabled ?? true,
    listed: entry.listed ?? true,
    fromWildcard: entry.from_wildcard ?? false,
    fromList: [],
    createdMs: entry.created === undefined ? null : entry.created * 1_000,
    // An entry may narrow the context below the known maximum.
    maxOutputLength: Math.min(complete.maxOutputLength, complete.contextLength),
    routes,
  }
}

export function hasEveryFact(facts: { [K in keyof Facts]?: Facts[K] | undefined }): facts is Facts {
  return facts.pricing !== undefined && FACT_FIELDS.every(([fact]) => facts[fact] !== undefined)
}

export function lacksPrice(entry: Entry, upstreams: Entry): boolean {
  const isPaid = ({ pricing, upstream }: Entry) =>
    !pricing && typeof upstream === 'string' && Object.hasOwn(upstreams, upstream) && !isLocal(upstreams[upstream])
  return entry.pricing === undefined && toItems(entry.routes).map(toEntry).some(isPaid)
}

/** The price of the first route; free if all routes are local. */
function toFallbackPrice(routes: DeclaredRoute[]): PricingItem[] {
  const first = routes.filter((route) => route.pricing).sort((a, b) => a.priority - b.priority)[0]
  return first?.pricing ?? FREE
}

function toOwnFacts(entry: ModelEntry): Partial<Facts> {
  const given = FACT_FIELDS.filter(([, field]) => entry[field] !== undefined)
  return Object.fromEntries(given.map(([fact, field]) => [fact, entry[field]]))
}

export const PLAIN_ROUTE = {
  ...{ priority: 0, weight: 1, pricing: null, contextLength: null, maxOutputLength: null, supportedFeatures: null },
  ...{ options: {}, fromList: [], enabled: true },
} satisfies Omit<DeclaredRoute, 'upstream' | 'upstreamModel'>

function toRoute({ upstream, model, pricing, ...said }: ModelEntry['routes'][number]): DeclaredRoute {
  const columns = toColumns<Partial<DeclaredRoute>>(Route, said)
  return { ...PLAIN_ROUTE, ...columns, upstream, upstreamModel: model, pricing: toPrices(pricing) ?? null }
}

export const toPrices = (pricing: PricingEntry | undefined): PricingItem[] | undefined => pricing?.toSorted(byCondition)

/** Sorts prices without a mode first, then by mode, because the last applicable price wins. */
export const byCondition = (a: PricingItem, b: PricingItem): number =>
  compare(modeOf(a) ?? '', modeOf(b) ?? '') || (a.min_prompt_tokens ?? 0) - (b.min_prompt_tokens ?? 0)

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)
