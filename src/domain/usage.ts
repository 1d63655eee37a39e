/**
 * Usage of one call, in the shape that pricing, ledger, and receipt share; dialects fill it from what an upstream reports. Cache reads and writes overlap only
 * if together they exceed `prompt`.
 */
import { keysOf } from './json.ts'
export interface Usage {
  /** All input tokens, including cached and cache-writing ones. */
  prompt: number
  /** Part of `prompt` that was read from a cache. */
  cacheRead: number
  /** Part of `prompt` that was written to a cache with the default lifetime. */
  cacheWrite: number
  /** Part of `prompt` that was written to a cache for an hour; not in `cacheWrite`. */
  cacheWrite1h: number
  /** Audio and image parts of `prompt`, without cache reads and writes. */
  audioPrompt: number
  imagePrompt: number
  /** Part of `prompt` that provider tools added; charged as the rest of the prompt. */
  toolPrompt: number
  /** All output tokens, including reasoning. */
  completion: number
  /** Part of `completion` that was reasoning. */
  reasoning: number
  /** Audio and image parts of `completion`, without reasoning. */
  audioCompletion: number
  imageCompletion: number
  /** Web searches by the provider. */
  webSearches: number
  /** Server time, ms, for models with a price per second: not reported by upstreams, see `accounting/bill.ts`. */
  computeMs: number
}

/** Usage of another model within the call, such as an advisor. */
export interface ModelUsage {
  /** The upstream's name for it. */
  model: string
  usage: Usage
}

/** Total usage and cost of a request's calls, as sent to the client. */
export interface Receipt {
  usage: Usage
  costNanoUsd: number
  /** Until then, ms. */
  durationMs: number
}

export const NO_USAGE: Usage = {
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
}

/** More searches per call are assumed to be nonsense. */
export const MAX_SEARCHES = 10_000

/** Adds `more` to `sum`, in place. */
export function addUsage(sum: Usage, more: Usage): void {
  for (const field of FIELDS) sum[field] += more[field]
}

const FIELDS = keysOf(NO_USAGE)

/** Every price in display order: its label, and whether it is per token. A null label is not shown. */
export const PRICES = {
  prompt: { word: 'Prompt', isOfTokens: true },
  completion: { word: 'Response', isOfTokens: true },
  input_cache_read: { word: 'Cache read', isOfTokens: true },
  input_cache_write: { word: 'Cache write', isOfTokens: true },
  input_cache_write_1h: { word: 'Cache write, 1 h', isOfTokens: true },
  internal_reasoning: { word: 'Reasoning', isOfTokens: true },
  audio: { word: 'Audio in prompt', isOfTokens: true },
  audio_completion: { word: 'Audio in response', isOfTokens: true },
  image_token: { word: 'Image in prompt', isOfTokens: true },
  image_token_completion: { word: 'Image in response', isOfTokens: true },
  /** USD per image, as some providers publish it: shown to clients, never charged. */
  image: { word: null, isOfTokens: false },
  request: { word: 'Per request', isOfTokens: false },
  web_search: { word: 'Web search', isOfTokens: false },
  /** Charged per ms, for local servers. At most 15 decimals, so that a ms has an exact price. */
  second: { word: 'Second of compute', isOfTokens: false },
} as const
type PriceName = keyof typeof PRICES

export const PRICE_NAMES = keysOf(PRICES)

export const mapPrices = <Value>(of: (name: PriceName) => Value) =>
  Object.fromEntries(PRICE_NAMES.map((name) => [name, of(name)])) as Record<PriceName, Value>

/** True for prices per token, which are shown per million. */
export const isOfTokens = (price: string): boolean => PRICES[price as PriceName]?.isOfTokens ?? true

/** One complete item of a model's `pricing`: decimal strings in USD per token (`request`: per call, `second`: per second). */
export interface PricingItem extends Partial<Record<PriceName, string>> {
  prompt: string
  completion: string
  /** The item applies, to the whole request, if the prompt has more tokens than this. The first item has no condition. */
  min_prompt_tokens?: number
  /** The item applies to calls in this mode, such as `flex`: see `toMode`. */
  mode?: string
}

const NANO_PER_USD = 1_000_000_000

/** Writes nano-dollars (never negative) as exact dollars without trailing zeros: `0.1`, `20`. */
export function toUsd(nanoUsd: number): string {
  const rest = nanoUsd % NANO_PER_USD
  const usd = String((nanoUsd - rest) / NANO_PER_USD)
  if (rest === 0) return usd
  // The leading one keeps the zeros after the decimal point.
  const decimals = String(NANO_PER_USD + rest)
  let end = decimals.length
  while (decimals[end - 1] === '0') end--
  return `${usd}.${decimals.slice(1, end)}`
}

/** Upstreams' words for the usual mode. */
const USUAL: ReadonlySet<string> = new Set([
  ...['auto', 'default', 'standard', 'on_demand', 'global', 'not_available', 'unspecified', 'type_unspecified'],
])

/** Google's prefixes of such words. */
const PREFIX = /^(?:service_tier|traffic_type|traffic|on_demand)_/

const MAX_CHARS = 40

/** A mode's name in catalog and ledger. */
export const MODE = /^[a-z0-9][a-z0-9_.+-]{0,39}$/

/**
 * Combines an upstream's service words into one mode: OpenAI's `service_tier`, Anthropic's `service_tier`, `speed` and `inference_geo`, Google's `serviceTier`
 * and `trafficType`. Several unusual words are joined by name: `fast+us`. Null for the usual mode, or none reported.
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
 * The caveat about a charge with these prices missing. Only flex is cheaper than usual everywhere, half price at OpenAI
 * (https://platform.openai.com/docs/guides/flex-processing) and Google (https://ai.google.dev/gemini-api/docs/optimization), so the usual price is never too
 * low.
 *
 * @param unpriced see `findUnpriced`.
 */
export const toDoubt = (unpriced: readonly string[], mode: string | null): string =>
  mode === 'flex' && unpriced.every((name) => name === 'mode') && unpriced.length > 0
    ? 'the actual cost may be lower'
    : 'the actual cost may differ'
