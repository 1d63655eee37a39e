/**
 * Exact money: what a call costs in integer nano-dollars, from decimal strings and BigInt, rounded once, half up, and the
 * same written out for whoever asks how it came about. No floating point touches it. Pure.
 */
import type { PricingItem, Usage } from './usage.ts'

/** Prices are held as integers of 10^-18 USD: a decimal string may have this many places. */
const MAX_DECIMALS = 18
const ATTO_PER_NANO = 1_000_000_000n

interface Prices<T> {
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
  request: T
}

/** By which price of an item each count is charged: the first of these names that the item has. `request` is free without one. */
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
  request: ['request'],
} as const satisfies Record<keyof Prices<unknown>, readonly (keyof PricingItem)[]>

type Kind = keyof typeof CHARGED_BY
const KINDS = Object.keys(CHARGED_BY) as Kind[]

interface Tariff {
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

/**
 * Charges one call. A missing price of a kind of tokens costs as `prompt` or `completion`, that of audio in an answer as
 * `audio`, where there is one; of several items the last one whose condition holds counts. No pricing = free.
 */
export function costNanoUsd(pricing: readonly PricingItem[], usage: Usage): number {
  if (pricing.length === 0) return 0
  const tariff = pick(tariffsOf(pricing), usage.prompt)
  if (!tariff) return 0
  const plain = toPlain(usage)
  const written = toWritten(usage)
  const pico = tariff.pico === null ? Number.POSITIVE_INFINITY : toPico(tariff.pico, plain, written, usage)
  // Whole numbers up to here are exact, and none of the parts is larger than their sum.
  if (pico < Number.MAX_SAFE_INTEGER - PICO_PER_NANO) return roundHalfUp(pico)
  return Number((toAttoSum(tariff.atto, plain, written, usage) + ATTO_PER_NANO / 2n) / ATTO_PER_NANO)
}

/** Tokens of the prompt that have no kind of their own. */
const toPlain = ({ prompt, cacheRead, cacheWrite, cacheWrite1h, audioPrompt, imagePrompt }: Usage) =>
  Math.max(0, prompt - cacheRead - cacheWrite - cacheWrite1h - audioPrompt - imagePrompt)

/** The same of the answer. */
const toWritten = ({ completion, reasoning, audioCompletion, imageCompletion }: Usage) =>
  Math.max(0, completion - reasoning - audioCompletion - imageCompletion)

/** One product of the sum that a call costs. */
export interface ChargeLine {
  /** What is counted: tokens of a kind that no other line counts, or the call itself (`request`). */
  kind: Kind
  count: number
  /** The name in the catalogue of the price that it is charged by: of a kind without a price of its own, another one's. */
  price: keyof PricingItem
  /** USD for each, as the catalogue has it. */
  usdEach: string
  /** Exact USD of the line. */
  usd: string
}

/** A charge, written out. */
export interface Charge {
  /** The item whose condition held; null where nothing has a price. */
  item: PricingItem | null
  lines: ChargeLine[]
  /** Exact USD of all lines. */
  usd: string
  /** The same, rounded: what `costNanoUsd` says. */
  nanoUsd: number
}

/** Writes out how the cost of a call comes about. Lines without a count are left out. */
export function toCharge(pricing: readonly PricingItem[], usage: Usage): Charge {
  const nanoUsd = costNanoUsd(pricing, usage)
  const tariff = pick(tariffsOf(pricing), usage.prompt)
  if (!tariff) return { item: null, lines: [], usd: '0', nanoUsd }
  const { item, atto } = tariff
  const counts: Record<Kind, number> = { ...usage, prompt: toPlain(usage), completion: toWritten(usage), request: 1 }
  const lines = KINDS.flatMap((kind): ChargeLine[] => {
    const price = priceOf(item, kind)
    const count = counts[kind]
    if (price === null || count === 0) return []
    return [{ kind, count, price, usdEach: String(item[price]), usd: fromAtto(atto[kind] * BigInt(count)) }]
  })
  return { item, lines, usd: fromAtto(toAttoSum(atto, counts.prompt, counts.completion, usage)), nanoUsd }
}

function priceOf(item: PricingItem, kind: Kind): keyof PricingItem | null {
  return CHARGED_BY[kind].find((name) => item[name] !== undefined) ?? null
}

/** Writes units of 10^-18 as a decimal without zeros that say nothing. */
function fromAtto(atto: bigint): string {
  const digits = String(atto).padStart(MAX_DECIMALS + 1, '0')
  const fraction = digits.slice(-MAX_DECIMALS).replace(/0+$/, '')
  return fraction === '' ? digits.slice(0, -MAX_DECIMALS) : `${digits.slice(0, -MAX_DECIMALS)}.${fraction}`
}

const PICO_PER_NANO = 1_000

function toPico(price: Prices<number>, plain: number, written: number, usage: Usage): number {
  return (
    price.request +
    price.prompt * plain +
    price.completion * written +
    price.cacheRead * usage.cacheRead +
    price.cacheWrite * usage.cacheWrite +
    price.cacheWrite1h * usage.cacheWrite1h +
    price.reasoning * usage.reasoning +
    price.audioPrompt * usage.audioPrompt +
    price.imagePrompt * usage.imagePrompt +
    price.audioCompletion * usage.audioCompletion +
    price.imageCompletion * usage.imageCompletion
  )
}

/** Whole nano-dollars. The remainder of whole numbers is exact; their quotient would not be. */
function roundHalfUp(pico: number): number {
  const more = pico + PICO_PER_NANO / 2
  return (more - (more % PICO_PER_NANO)) / PICO_PER_NANO
}

function toAttoSum(price: Prices<bigint>, plain: number, written: number, usage: Usage): bigint {
  return (
    price.request +
    price.prompt * BigInt(plain) +
    price.completion * BigInt(written) +
    price.cacheRead * BigInt(usage.cacheRead) +
    price.cacheWrite * BigInt(usage.cacheWrite) +
    price.cacheWrite1h * BigInt(usage.cacheWrite1h) +
    price.reasoning * BigInt(usage.reasoning) +
    price.audioPrompt * BigInt(usage.audioPrompt) +
    price.imagePrompt * BigInt(usage.imagePrompt) +
    price.audioCompletion * BigInt(usage.audioCompletion) +
    price.imageCompletion * BigInt(usage.imageCompletion)
  )
}

/** Parsed pricing, kept as long as the snapshot that holds the strings. */
const parsed = new WeakMap<readonly PricingItem[], Tariff[]>()

function tariffsOf(pricing: readonly PricingItem[]): Tariff[] {
  const known = parsed.get(pricing)
  if (known) return known
  const tariffs = pricing.map(toTariff)
  parsed.set(pricing, tariffs)
  return tariffs
}

function toTariff(item: PricingItem): Tariff {
  const of = (kind: Kind) => {
    const price = priceOf(item, kind)
    return price === null ? 0n : toAtto(String(item[price]))
  }
  const atto = {
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
    request: of('request'),
  }
  return { item, moreThan: item.min_prompt_tokens ?? -1, atto, pico: toPicoPrices(atto) }
}

const ATTO_PER_PICO = 1_000_000n

function toPicoPrices(atto: Prices<bigint>): Prices<number> | null {
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
    request: of(atto.request),
  }
}

function pick(tariffs: Tariff[], promptTokens: number): Tariff | undefined {
  const [first] = tariffs
  return tariffs.length === 1 ? first : (tariffs.findLast((tariff) => promptTokens > tariff.moreThan) ?? first)
}
