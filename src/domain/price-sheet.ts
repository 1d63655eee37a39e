/**
 * A pricing item as numbers to reckon with, and by which of its prices each count is charged. `tariff.ts` says which item holds for a
 * call, `price.ts` adds up. Pure.
 */
import type { PricingItem, Usage } from './usage.ts'

/** Prices are held as integers of 10^-18 USD: a decimal string may have this many places. */
export const MAX_DECIMALS = 18
const MS_PER_SECOND = 1_000n

export interface Prices<T> {
  prompt: T
  completion: T
  cacheRead: T
  cacheWrite: T
  cacheWrite1h: T
  reasoning: T
  audioPrompt: T
  imagePrompt: T
  audioCompletion: T
  imageCompletion: T
  webSearches: T
  /** Of a ms: a thousandth of `second`. */
  computeMs: T
  request: T
}

/** By which price of an item each count is charged: the first of these names that the item has. The last three are free without one. */
const CHARGED_BY = {
  prompt: ['prompt'],
  cacheRead: ['input_cache_read', 'prompt'],
  cacheWrite: ['input_cache_write', 'prompt'],
  cacheWrite1h: ['input_cache_write_1h', 'input_cache_write', 'prompt'],
  audioPrompt: ['audio', 'prompt'],
  imagePrompt: ['image_token', 'prompt'],
  completion: ['completion'],
  reasoning: ['internal_reasoning', 'completion'],
  audioCompletion: ['audio_completion', 'audio', 'completion'],
  imageCompletion: ['image_token_completion', 'completion'],
  webSearches: ['web_search'],
  computeMs: ['second'],
  request: ['request'],
} as const satisfies Record<keyof Prices<unknown>, readonly (keyof PricingItem)[]>

export type Kind = keyof typeof CHARGED_BY
export const KINDS = Object.keys(CHARGED_BY) as Kind[]

/** The name of the price that a kind is charged by; null where the item has none for it. */
export function priceOf(item: PricingItem, kind: Kind): keyof PricingItem | null {
  return CHARGED_BY[kind].find((name) => item[name] !== undefined) ?? null
}

/** The name of a kind's own price. */
export const ownPriceOf = (kind: Kind): keyof PricingItem => CHARGED_BY[kind][0]

/**
 * Counts that cost more than what they are charged as without a price of their own, wherever they have one: audio and images that are
 * written are far from text, what is written to a cache costs more than what is only read (at Anthropic a quarter more, for an hour
 * twice as much), and searches are charged as nothing.
 */
const NEEDED = {
  cacheWrite: ['input_cache_write'],
  cacheWrite1h: ['input_cache_write_1h'],
  webSearches: ['web_search'],
  audioPrompt: ['audio'],
  audioCompletion: ['audio_completion', 'audio'],
  imageCompletion: ['image_token_completion'],
} as const satisfies Partial<Record<keyof Usage, readonly (keyof PricingItem)[]>>

/** What an item lacks of what a call has used, by the names of those prices. */
export function lacking(item: PricingItem, usage: Usage): (keyof PricingItem)[] {
  return (Object.keys(NEEDED) as (keyof typeof NEEDED)[]).flatMap((count) =>
    usage[count] > 0 && NEEDED[count].every((name) => item[name] === undefined) ? NEEDED[count][0] : [],
  )
}

/** What a call is charged by: an item, in numbers. */
export interface Tariff {
  item: PricingItem
  moreThan: number
  atto: Prices<bigint>
  /** The same in units of 10^-12 where they are whole, as nearly all are: sums of those are much quicker, and as exact. */
  pico: Prices<number> | null
}

/** Parses a plain decimal such as `0.00000015` to units of 10^-18. Throws on anything else. */
export function toAtto(decimal: string): bigint {
  const match = /^(\d+)(?:\.(\d{1,18}))?$/.exec(decimal)
  if (!match) throw new RangeError(`not a price: ${decimal}`)
  return BigInt((match[1] ?? '0') + (match[2] ?? '').padEnd(MAX_DECIMALS, '0'))
}

/** The prices of an item, of each kind that by which it is charged. */
export function toPrices(item: PricingItem): Prices<bigint> {
  const of = (kind: Kind) => {
    const price = priceOf(item, kind)
    return price === null ? 0n : toAtto(String(item[price]))
  }
  return {
    prompt: of('prompt'),
    completion: of('completion'),
    cacheRead: of('cacheRead'),
    cacheWrite: of('cacheWrite'),
    cacheWrite1h: of('cacheWrite1h'),
    reasoning: of('reasoning'),
    audioPrompt: of('audioPrompt'),
    imagePrompt: of('imagePrompt'),
    audioCompletion: of('audioCompletion'),
    imageCompletion: of('imageCompletion'),
    webSearches: of('webSearches'),
    computeMs: of('computeMs') / MS_PER_SECOND,
    request: of('request'),
  }
}

const ATTO_PER_PICO = 1_000_000n

/** The same in units of 10^-12; null where they are not whole. */
export function toPicoPrices(atto: Prices<bigint>): Prices<number> | null {
  const isWhole = Object.values(atto).every((price: bigint) => price % ATTO_PER_PICO === 0n)
  const of = (price: bigint) => Number(price / ATTO_PER_PICO)
  if (!isWhole) return null
  return {
    prompt: of(atto.prompt),
    completion: of(atto.completion),
    cacheRead: of(atto.cacheRead),
    cacheWrite: of(atto.cacheWrite),
    cacheWrite1h: of(atto.cacheWrite1h),
    reasoning: of(atto.reasoning),
    audioPrompt: of(atto.audioPrompt),
    imagePrompt: of(atto.imagePrompt),
    audioCompletion: of(atto.audioCompletion),
    imageCompletion: of(atto.imageCompletion),
    webSearches: of(atto.webSearches),
    computeMs: of(atto.computeMs),
    request: of(atto.request),
  }
}
