/**
 * Tokens of one call, in the one shape that price, ledger and receipt share. Dialects fill it from whatever an
 * upstream reports. What was read from a cache and what was written to one may overlap: only where both together are more than `prompt`.
 */
import { keysOf } from './json.ts'
export interface Usage {
  /** All tokens read, cached and cache-writing ones included. */
  prompt: number
  /** Part of `prompt` that was read from a cache. */
  cacheRead: number
  /** Part of `prompt` that was written to a cache with the default lifetime. */
  cacheWrite: number
  /** Part of `prompt` that was written to a cache for an hour. Not contained in `cacheWrite`. */
  cacheWrite1h: number
  /** Parts of `prompt` that were audio and images, as far as they were not read from a cache or written to one. */
  audioPrompt: number
  imagePrompt: number
  /** Part of `prompt` that tools of the provider read into it, and nobody sent. It costs what the rest of the prompt does. */
  toolPrompt: number
  /** All tokens written, reasoning included. */
  completion: number
  /** Part of `completion` that was reasoning. */
  reasoning: number
  /** Parts of `completion` that were audio and images, and no reasoning. */
  audioCompletion: number
  imageCompletion: number
  /** How often the provider searched the web. */
  webSearches: number
  /** How long a server was at work on it, ms, where that has a price: no upstream reports it, `accounting/bill.ts` says what counts. */
  computeMs: number
}

/** What a model other than the one that was called has used within the call, such as an advisor. */
export interface ModelUsage {
  /** As its upstream calls it. */
  model: string
  usage: Usage
}

/** What a request used and cost, as its client is told: the sums over its calls. */
export interface Receipt {
  usage: Usage
  costNanoUsd: number
  /** How long it took until then, ms. */
  durationMs: number
}

/** The usage of a call that read and wrote nothing. */
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

/** No call searches more often; beyond it a number is nonsense, and what it costs would be. */
export const MAX_SEARCHES = 10_000

/** Adds what `more` has to `sum`, in place. */
export function addUsage(sum: Usage, more: Usage): void {
  for (const field of FIELDS) sum[field] += more[field]
}

const FIELDS = keysOf(NO_USAGE)

/** Every price, in the order in which it is told: what it is for, and whether it is of a token each. Null: pages do not tell it. */
export const PRICES = {
  prompt: { word: 'Prompt', isOfTokens: true },
  completion: { word: 'Answer', isOfTokens: true },
  input_cache_read: { word: 'Prompt, from the cache', isOfTokens: true },
  input_cache_write: { word: 'Prompt, into the cache', isOfTokens: true },
  input_cache_write_1h: { word: 'Prompt, into the cache for an hour', isOfTokens: true },
  internal_reasoning: { word: 'Reasoning', isOfTokens: true },
  audio: { word: 'Audio in the prompt', isOfTokens: true },
  audio_completion: { word: 'Audio in the answer', isOfTokens: true },
  image_token: { word: 'Image in the prompt', isOfTokens: true },
  image_token_completion: { word: 'Image in the answer', isOfTokens: true },
  /** USD per image, as some providers publish it: shown to clients, and never charged. */
  image: { word: null, isOfTokens: false },
  request: { word: 'A request', isOfTokens: false },
  web_search: { word: 'A search of the web', isOfTokens: false },
  /** To the ms: what a server of one's own costs. At most 15 decimals, so that a ms has an exact price. */
  second: { word: 'A second of compute', isOfTokens: false },
} as const
type PriceName = keyof typeof PRICES

export const PRICE_NAMES = keysOf(PRICES)

/** Says something of each price. */
export const mapPrices = <Value>(of: (name: PriceName) => Value) =>
  Object.fromEntries(PRICE_NAMES.map((name) => [name, of(name)])) as Record<PriceName, Value>

/** Whether a price is one of a token, by its name: people compare those by the million. */
export const isOfTokens = (price: string): boolean => PRICES[price as PriceName]?.isOfTokens ?? true

/** One item of a model's `pricing`, whole in itself: decimal strings, USD per token (`request`: per call, `second`: per second). */
export interface PricingItem extends Partial<Record<PriceName, string>> {
  prompt: string
  completion: string
  /** The item holds for requests with more prompt tokens than this (strictly), for all of them. The first item has no condition. */
  min_prompt_tokens?: number
  /** The item holds for calls that their upstream says it served so, such as `flex`: see `toMode`. */
  mode?: string
}

const NANO_PER_USD = 1_000_000_000

/** Writes nano-dollars, which are never below 0, as exact dollars without zeros that say nothing: `0.1`, `20`. */
export function toUsd(nanoUsd: number): string {
  const rest = nanoUsd % NANO_PER_USD
  const usd = String((nanoUsd - rest) / NANO_PER_USD)
  if (rest === 0) return usd
  // The one keeps the zeros that the decimals begin with.
  const decimals = String(NANO_PER_USD + rest)
  let end = decimals.length
  while (decimals[end - 1] === '0') end--
  return `${usd}.${decimals.slice(1, end)}`
}

/** By what upstreams say that a call was served as most are. */
const USUAL: ReadonlySet<string> = new Set([
  ...['auto', 'default', 'standard', 'on_demand', 'global', 'not_available', 'unspecified', 'type_unspecified'],
])

/** What Google puts before such words. */
const PREFIX = /^(?:service_tier|traffic_type|traffic|on_demand)_/

const MAX_CHARS = 40

/** Of a name in the catalogue, and in the ledger. */
export const MODE = /^[a-z0-9][a-z0-9_.+-]{0,39}$/

/**
 * Makes one word of those by which an upstream says how it served a call: OpenAI's `service_tier`, Anthropic's `service_tier`, `speed`
 * and `inference_geo`, Google's `serviceTier` and `trafficType`. Several that are out of the ordinary are joined by their names:
 * `fast+us`. Null where it was served as most are, or does not say.
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
 * What a charge may be that leaves out these, for a sentence. Flex alone costs less than usual with whoever offers it, half of it at
 * OpenAI (https://platform.openai.com/docs/guides/flex-processing) and Google (https://ai.google.dev/gemini-api/docs/optimization):
 * what was charged as usual is too much, and never too little.
 *
 * @param unpriced see `findUnpriced`.
 */
export const toDoubt = (unpriced: readonly string[], mode: string | null): string =>
  mode === 'flex' && unpriced.every((name) => name === 'mode') && unpriced.length > 0
    ? 'this may have cost less'
    : 'this may not be what it cost'
