/** Usage of a call. Cache reads and writes overlap only if together they exceed `prompt`. */
import { keysOf } from './json.ts'
import { addUnits, UNIT_NAMES, UNITS, type UnitCounts, type UnitPrice } from './units.ts'

export interface Usage extends UnitCounts {
  /** All input, cached included. */
  prompt: number
  /** Part of `prompt`. */
  cacheRead: number
  /** Part of `prompt`, with the default lifetime. */
  cacheWrite: number
  /** Part of `prompt`, for an hour; not in `cacheWrite`. */
  cacheWrite1h: number
  /** Parts of `prompt`, without cache reads and writes. */
  audioPrompt: number
  imagePrompt: number
  /** Part of `prompt` added by provider tools. */
  toolPrompt: number
  /** All output, reasoning included. */
  completion: number
  /** Part of `completion`. */
  reasoning: number
  /** Parts of `completion`, without reasoning. */
  audioCompletion: number
  imageCompletion: number
  webSearches: number
  /** ms, if priced per second; see `accounting/bill.ts`. */
  computeMs: number
}

/** Within the call, such as an advisor. */
export interface ModelUsage {
  /** The upstream's name. */
  model: string
  usage: Usage
}

/** As sent to the client. */
export interface Receipt {
  usage: Usage
  costNanoUsd: number
  /** Until then. */
  durationMs: number
}

export const NO_USAGE = {
  prompt: 0,
  cacheRead: 0,
  cacheWrite: 0,
  cacheWrite1h: 0,
  audioPrompt: 0,
  imagePrompt: 0,
  toolPrompt: 0,
  completion: 0,
  reasoning: 0,
  audioCompletion: 0,
  imageCompletion: 0,
  webSearches: 0,
  computeMs: 0,
} satisfies Usage

/** Larger counts are invalid. */
export const MAX_SEARCHES = 10_000

/** Changes `sum` in place. */
export function addUsage(sum: Usage, more: Usage): void {
  for (const field of FIELDS) sum[field] += more[field]
  addUnits(sum, more)
}

const FIELDS = keysOf(NO_USAGE)

/** In display order; a null label is hidden. */
export const PRICES = {
  prompt: { word: 'Input', isOfTokens: true },
  completion: { word: 'Output', isOfTokens: true },
  input_cache_read: { word: 'Cached input', isOfTokens: true },
  input_cache_write: { word: 'Cache writes', isOfTokens: true },
  input_cache_write_1h: { word: '1-hour cache writes', isOfTokens: true },
  internal_reasoning: { word: 'Reasoning', isOfTokens: true },
  audio: { word: 'Audio input', isOfTokens: true },
  audio_completion: { word: 'Audio output', isOfTokens: true },
  image_token: { word: 'Image input', isOfTokens: true },
  image_token_completion: { word: 'Image output', isOfTokens: true },
  /** USD per image, as some providers publish: never charged. */
  image: { word: null, isOfTokens: false },
  request: { word: 'Per request', isOfTokens: false },
  ...(Object.fromEntries(
    UNIT_NAMES.map((unit) => [UNITS[unit].price, { word: UNITS[unit].title, isOfTokens: false }]),
  ) as Record<UnitPrice, { word: string; isOfTokens: false }>),
} as const
type PriceName = keyof typeof PRICES

export const PRICE_NAMES = keysOf(PRICES)

export const mapPrices = <Value>(of: (name: PriceName) => Value) =>
  Object.fromEntries(PRICE_NAMES.map((name) => [name, of(name)])) as Record<PriceName, Value>

/** Shown per million. */
export const isOfTokens = (price: string): boolean => PRICES[price as PriceName]?.isOfTokens ?? true

/**
 * Decimal strings, USD per token (`request`: per call; others per unit, see `units.ts`). Seconds are charged per ms: at most 15 decimals, so that a ms has an
 * exact price.
 */
export interface PricingItem extends Partial<Record<PriceName, string>> {
  prompt: string
  completion: string
  /** Applies to the whole request above this prompt size; absent in the first item. */
  min_prompt_tokens?: number
  /** Such as `flex`: see `toMode`. */
  mode?: string
  /** Image size, as the upstream reports it: `1024x1024`, `high`. */
  size?: string
  quality?: string
  /** Minimum length and step of charged audio: Groq 10 s, OpenAI whole seconds. */
  audio_min_seconds?: number
  audio_step_seconds?: number
}

/** ` (at least 10 s, in steps of 1 s)`; '' without. */
export function toAudioTerms({ audio_min_seconds: least, audio_step_seconds: step }: Partial<PricingItem>): string {
  const terms = [least && `at least ${least} s`, step && `in steps of ${step} s`].filter(Boolean)
  return terms.length === 0 ? '' : ` (${terms.join(', ')})`
}

/** Lowest price of each unit other than tokens, at any size or quality. */
export const toLeastPrices = (pricing: readonly Partial<PricingItem>[]) =>
  UNIT_NAMES.flatMap((unit) => {
    const { price } = UNITS[unit]
    const prices = new Set(pricing.flatMap((item) => (isNothing(item[price]) ? [] : (item[price] ?? []))))
    const [usd] = [...prices].sort((a, b) => Number(a) - Number(b))
    // A search price of chat models, which have other prices.
    if (usd === undefined || unit === 'webSearches') return []
    return [{ unit, usd, per: UNITS[unit].title.toLowerCase(), isOneOfSeveral: prices.size > 1 }]
  })

export const isNothing = (price = '0'): boolean => /^[0.]*$/.test(price)

/** True if only units other than tokens are charged. */
export const isByUnit = (pricing: readonly Partial<PricingItem>[]): boolean =>
  isNothing(pricing[0]?.prompt) && isNothing(pricing[0]?.completion) && toLeastPrices(pricing).length > 0

export const NANO_PER_USD = 1_000_000_000

/** Exact dollars: `0.1`, `20`. Never negative. */
export function toUsd(nanoUsd: number): string {
  const rest = nanoUsd % NANO_PER_USD
  const usd = String((nanoUsd - rest) / NANO_PER_USD)
  if (rest === 0) return usd
  // The added one keeps leading zeros.
  const decimals = String(NANO_PER_USD + rest)
  let end = decimals.length
  while (decimals[end - 1] === '0') end--
  return `${usd}.${decimals.slice(1, end)}`
}

/** Image size and quality, as the upstream reports them. */
export interface Variant {
  size?: string | null
  quality?: string | null
}

const USUAL: ReadonlySet<string> = new Set([
  ...['auto', 'default', 'standard', 'on_demand', 'global', 'not_available', 'unspecified', 'type_unspecified'],
])

/** Google's prefixes. */
const PREFIX = /^(?:service_tier|traffic_type|traffic|on_demand)_/

const MAX_CHARS = 40

export const MODE = /^[a-z0-9][a-z0-9_.+-]{0,39}$/

/**
 * Combines service words: OpenAI's and Anthropic's `service_tier`, `speed`, `inference_geo`, Google's `serviceTier`, `trafficType`. Non-standard ones
 * are joined: `fast+us`. Null for the standard mode.
 */
export function toMode(...said: unknown[]): string | null {
  const words = new Set<string>()
  for (const each of said) {
    if (typeof each !== 'string') continue
    const word = each.trim().toLowerCase()
    if (word === '' || USUAL.has(word)) continue
    const name = word
      .replace(PREFIX, '')
      .replace(/[^a-z0-9_.-]+/g, '_')
      .replace(/^[^a-z0-9]+/, '')
    if (name !== '' && !USUAL.has(name)) words.add(name)
  }
  const mode = [...words].sort().join('+').slice(0, MAX_CHARS)
  return mode === '' ? null : mode
}

/**
 * The caveat if these prices are missing. Only flex is always cheaper than usual, half price at OpenAI
 * (https://platform.openai.com/docs/guides/flex-processing) and Google (https://ai.google.dev/gemini-api/docs/optimization).
 *
 * @param unpriced see `findUnpriced`.
 */
export const toDoubt = (unpriced: readonly string[], mode: string | null): string =>
  mode === 'flex' && unpriced.every((name) => name === 'mode') && unpriced.length > 0
    ? 'the actual cost may be lower'
    : 'the actual cost may differ'
