/**
 * Known facts about public models, shipped in the binary (models.dev, MIT: `known.LICENSE`). `known-prices.jsonl` has
 * prices that models.dev lacks, such as those of audio and images (written by `.ci/known-prices.ts`). Loaded only if an
 * entry lacks a fact, since unpacking takes 20 ms. Prices become exact decimal strings.
 */

import { EFFORTS, FEATURES, type Feature, MODALITIES, type Modality, type RouteSettings } from '../domain/models.ts'
import { ENDPOINT_PATHS } from '../domain/task.ts'
import { type PricingItem, toMode } from '../domain/usage.ts'
import { byCondition, type Facts, OF_EMBEDDINGS } from './complete.ts'
import knownPath from './known.json.gz' with { type: 'file' }
import pricesPath from './known-prices.jsonl' with { type: 'file' }

/** A symbol, so that no list of models can contain this field. */
export const PRICING: unique symbol = Symbol('pricing')
/** Prices in the provider's own batches. */
export const BATCH_PRICING: unique symbol = Symbol('batch pricing')

interface Cost {
  input?: number
  output?: number
  cache_read?: number
  cache_write?: number
  /** Some entries use this name. */
  cached_input?: number
  cached_write?: number
  reasoning?: number
  input_audio?: number
  output_audio?: number
  tiers?: (Cost & { tier: { size: number } })[]
}

/** A model of models.dev. Lengths are 0 if unknown. */
export interface KnownModel {
  /** The provider's name of the model. */
  id?: string
  name: string
  tool_call?: boolean
  structured_output?: boolean
  reasoning?: boolean
  /** `toggle` = it can be turned off. */
  reasoning_options?: { type: string; values?: string[] }[]
  temperature?: boolean
  limit: { context: number; output: number }
  modalities: { input: string[]; output: string[] }
  cost?: Cost
  [PRICING]?: PricingItem[]
  [BATCH_PRICING]?: PricingItem[]
  /** Service tiers with other prices, and the fields that select them. */
  experimental?: { modes?: Record<string, { cost?: Partial<Cost>; provider?: { body?: Record<string, unknown> } }> }
}

export interface KnownProvider {
  name?: string
  /** Base URL, unless the library's default or customer-specific. */
  api?: string
  /** Environment variables of its libraries. */
  env?: string[]
  /** Its client library, which identifies its API format. */
  npm?: string
  models: Record<string, KnownModel>
}

export type KnownProviders = Record<string, KnownProvider>

export async function loadKnown(): Promise<KnownProviders> {
  const packed = await Bun.file(knownPath).bytes()
  return withPrices(JSON.parse(new TextDecoder().decode(Bun.gunzipSync(packed))))
}

/** A line of `known-prices.jsonl`, which also has the source of its price. */
interface Priced extends Pick<KnownModel, 'limit'> {
  provider: string
  model: string
  input: string[]
  output: string[]
  pricing: PricingItem[]
}

/** A line with a batch price. */
type BatchPriced = Pick<Priced, 'provider' | 'model'> & { batch: PricingItem[] }

/** Endpoint paths by the model's output. */
const PATHS: Readonly<Record<string, string>> = {
  ...{ transcription: '/v1/audio/transcriptions', speech: '/v1/audio/speech', image: '/v1/images/generations' },
  ...{ rerank: '/v1/rerank', moderation: '/v1/moderations', ocr: '/v1/ocr' },
}

const isServed = (output: string): boolean => Object.values<string>(ENDPOINT_PATHS).includes(PATHS[output] ?? '')

/** Adds prices that models.dev lacks. Skips models without an endpoint here, which could be called as chats. */
export async function withPrices(known: KnownProviders): Promise<KnownProviders> {
  const [, ...lines] = (await Bun.file(pricesPath).text()).trimEnd().split('\n')
  for (const line of lines) {
    const read: Priced | BatchPriced = JSON.parse(line)
    if ('batch' in read) {
      const model = findAt(known, read.provider, read.model)
      if (model) model[BATCH_PRICING] = read.batch
      continue
    }
    const { provider, model: id, limit, input, output, pricing } = read
    if (!output.some(isServed)) continue
    known[provider] ??= { models: {} }
    const found = findAt(known, provider, id)
    known[provider].models[id] = {
      ...{ id, name: id, ...found, [PRICING]: pricing },
      limit: { context: found?.limit.context || limit.context, output: found?.limit.output || limit.output },
      modalities: { input, output },
    }
  }
  return known
}

type Named = { upstream: string; model: string }

export function findFacts(known: KnownProviders, slug: string, routes: Named[]): Partial<Facts> {
  const model = findKnown(known, slug, routes)
  return model ? toFacts(model) : {}
}

/** By model ID (`<vendor>/<name>`), else by the first route with a known upstream and model. */
function findKnown(known: KnownProviders, slug: string, routes: Named[]): KnownModel | null {
  const slash = slug.indexOf('/')
  const places = [
    [slug.slice(0, slash), slug.slice(slash + 1)],
    ...routes.map((route) => [route.upstream, route.model]),
  ]
  for (const [provider = '', name = ''] of places) {
    const model = findAt(known, provider, name)
    if (model) return model
  }
  return null
}

/**
 * Reasoning settings for Anthropic's format. A model that accepts a token budget uses that even if it accepts efforts
 * too.
 */
export function findRouteSettings(known: KnownProviders, slug: string, route: Named): RouteSettings {
  const model = findKnown(known, slug, [route])
  return model ? toRouteSettings(model) : {}
}

/**
 * Claude models whose reasoning can't be turned off but only starts on request, which models.dev doesn't state
 * (platform.claude.com, "What's new in Claude Opus 5": Opus 4.8 runs without thinking unless it is set to `adaptive`,
 * as 4.7 does).
 */
const ONLY_ASKED = /\bclaude-opus-4[-.][78]\b/

export function toRouteSettings(model: KnownModel): RouteSettings {
  const options = model.reasoning_options ?? []
  const has = (type: string) => options.some((option) => option.type === type)
  const sampling = model.temperature === false ? { sampling: false } : {}
  if (!model.reasoning) return { thinking: 'none', ...sampling }
  if (has('budget_tokens')) return { thinking: 'budget', ...(has('toggle') ? { thinking_off: true } : {}), ...sampling }
  const effort = options.find((option) => option.type === 'effort')
  if (!effort) return sampling
  const efforts = EFFORTS.filter((one) => effort.values?.includes(one))
  return {
    thinking: 'adaptive',
    ...(efforts.length > 0 ? { efforts } : {}),
    thinking_off: has('toggle'),
    ...(ONLY_ASKED.test(model.id ?? '') ? { thinking_unasked: false } : {}),
    ...sampling,
  }
}

/** Reasoning settings for OpenAI's format: efforts, or none if the model would reject any. */
export function toEffortSettings({ reasoning, reasoning_options: options, temperature }: KnownModel): RouteSettings {
  const sampling = temperature === false ? { sampling: false } : {}
  if (!reasoning || options?.length === 0) return { thinking: 'none', ...sampling }
  const values = options?.find(({ type }) => type === 'effort')?.values ?? []
  const efforts = EFFORTS.filter((one) => values.includes(one))
  if (efforts.length === 0) return sampling
  const canBeOff = values.includes('none') || options?.some(({ type }) => type === 'toggle')
  return { efforts, ...(canBeOff ? {} : { thinking_off: false }), ...sampling }
}

export function findAt(known: KnownProviders, provider: string, name: string): KnownModel | undefined {
  const models = Object.hasOwn(known, provider) ? known[provider]?.models : undefined
  return models && Object.hasOwn(models, name) ? models[name] : undefined
}

/** Facts that models.dev lacks stay missing. */
export function toFacts(model: KnownModel): Partial<Facts> {
  const { context, output } = model.limit
  const features = new Set<Feature>()
  if (model.tool_call) features.add('tools')
  if (model.structured_output) features.add('json_mode').add('structured_outputs')
  if (model.reasoning) features.add('reasoning')
  const usual = model[PRICING] ?? (model.cost && toPricing(model.cost, model))
  const pricing = usual && withBatches(usual, model[BATCH_PRICING])
  return {
    name: model.name,
    ...(context > 0 ? { contextLength: context } : {}),
    ...(output > 0 ? { maxOutputLength: context > 0 ? Math.min(output, context) : output } : {}),
    inputModalities: toModalities(model.modalities.input),
    outputModalities: toModalities([...model.modalities.output, ...(saysRealtime(model.id ?? '') ? ['realtime'] : [])]),
    supportedFeatures: FEATURES.filter((feature) => features.has(feature)),
    ...(pricing ? { pricing } : {}),
    ...(isForEmbeddings(model) ? OF_EMBEDDINGS : {}),
  }
}

/** Batches of OpenAI and Anthropic cost half. Other ratios are ignored: the price list was refreshed before or since. */
function withBatches(usual: PricingItem[], batch: readonly PricingItem[] = []): PricingItem[] {
  const [first, half] = [usual[0], batch[0]]
  const isHalf = (name: 'prompt' | 'completion') => Number(half?.[name]) * 2 === Number(first?.[name])
  return isHalf('prompt') && isHalf('completion') ? [...usual, ...batch].sort(byCondition) : usual
}

/** True for embedding models. models.dev lists them as text models, so their names decide. */
const isForEmbeddings = ({ id = '', name, cost }: KnownModel) =>
  saysEmbeddings(`${id} ${name}`) && (cost?.output ?? 0) === 0

/** True for realtime models. models.dev lists them as text and audio models, so their names decide. */
export const saysRealtime = (name: string): boolean => /realtime/i.test(name)

export const saysEmbeddings = (name: string): boolean => /embed/i.test(name)

function toModalities(names: string[]): Modality[] {
  const present = new Set(names.map((name) => (name === 'pdf' ? 'file' : name)))
  return MODALITIES.filter((modality) => present.has(modality))
}

function toPricing(cost: Cost, model: KnownModel): PricingItem[] | null {
  const { name } = model
  const first = toItem(cost, name)
  if (!first) return null
  const tiers = (cost.tiers ?? []).flatMap((tier) => {
    const item = toItem({ ...cost, ...tier }, name)
    return item ? { ...item, min_prompt_tokens: tier.tier.size } : []
  })
  const modes = Object.entries(model.experimental?.modes ?? {}).flatMap(([called, { cost: own, provider }]) => {
    // The mode that the provider's responses report.
    const mode = toMode(provider?.body?.service_tier, provider?.body?.speed) ?? toMode(called)
    const item = own && mode !== null ? toItem({ ...cost, ...own }, name) : null
    return item && mode !== null ? { ...item, mode } : []
  })
  return [first, ...tiers, ...modes].sort(byCondition)
}

/** Anthropic charges twice the prompt price for one-hour cache writes, which the list lacks. */
const isClaude = (name: string, { input = 0, cache_write: write }: Cost) =>
  /\bclaude\b/i.test(name) && write !== undefined && Math.abs(write - 1.25 * input) < 1e-9

/**
 * If the list prices reasoning above output, it is Qwen's thinking mode, where all output costs the higher price
 * (https://www.alibabacloud.com/help/en/model-studio/model-pricing). Responses don't state the mode, so all output is
 * charged at the higher price: too much without thinking, but never too little.
 */
function toOutputPrices(output: number, reasoning: number | undefined): { written: number; thoughts?: number } {
  if (reasoning === undefined) return { written: output }
  return reasoning > output ? { written: reasoning } : { written: output, thoughts: reasoning }
}

function toItem(cost: Cost, name: string): PricingItem | null {
  if (cost.input === undefined || cost.output === undefined) return null
  const { written, thoughts } = toOutputPrices(cost.output, cost.reasoning)
  const { cache_read: read = cost.cached_input, cache_write: kept = cost.cached_write } = cost
  return {
    prompt: toPerToken(cost.input),
    completion: toPerToken(written),
    ...(read === undefined ? {} : { input_cache_read: toPerToken(read) }),
    ...(kept === undefined ? {} : { input_cache_write: toPerToken(kept) }),
    ...(isClaude(name, cost) ? { input_cache_write_1h: toPerToken(2 * cost.input) } : {}),
    ...(thoughts === undefined ? {} : { internal_reasoning: toPerToken(thoughts) }),
    ...(cost.input_audio === undefined ? {} : { audio: toPerToken(cost.input_audio) }),
    ...(cost.output_audio === undefined ? {} : { audio_completion: toPerToken(cost.output_audio) }),
  }
}

/** Significant decimals; the rest is floating-point noise. */
const PER_MILLION_DECIMALS = 12

/** USD per million tokens to USD per token: 0.15 becomes `0.00000015`. */
export function toPerToken(usdPerMillion: number): string {
  const decimals = PER_MILLION_DECIMALS + 6
  const digits = usdPerMillion
    .toFixed(PER_MILLION_DECIMALS)
    .replace('.', '')
    .padStart(decimals + 1, '0')
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`.replace(/\.?0+$/, '')
}
