/**
 * Exact money: what a call costs in integer nano-dollars, from decimal strings and BigInt, rounded once, half up. No
 * floating point touches it. Pure.
 */
import type { PricingItem, Usage } from '../domain/usage.ts'

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

interface Tariff {
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
  const { prompt, cacheRead, cacheWrite, cacheWrite1h, audioPrompt, imagePrompt } = usage
  const plain = Math.max(0, prompt - cacheRead - cacheWrite - cacheWrite1h - audioPrompt - imagePrompt)
  const written = Math.max(0, usage.completion - usage.reasoning - usage.audioCompletion - usage.imageCompletion)
  const pico = tariff.pico === null ? Number.POSITIVE_INFINITY : toPico(tariff.pico, plain, written, usage)
  // Whole numbers up to here are exact, and none of the parts is larger than their sum.
  if (pico < Number.MAX_SAFE_INTEGER - PICO_PER_NANO) return roundHalfUp(pico)
  return Number((toAttoSum(tariff.atto, plain, written, usage) + ATTO_PER_NANO / 2n) / ATTO_PER_NANO)
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
  const prompt = toAtto(item.prompt)
  const completion = toAtto(item.completion)
  const or = (decimal: string | undefined, instead: bigint) => (decimal === undefined ? instead : toAtto(decimal))
  const cacheWrite = or(item.input_cache_write, prompt)
  const atto = {
    prompt,
    completion,
    cacheRead: or(item.input_cache_read, prompt),
    cacheWrite,
    cacheWrite1h: or(item.input_cache_write_1h, cacheWrite),
    reasoning: or(item.internal_reasoning, completion),
    audioPrompt: or(item.audio, prompt),
    imagePrompt: or(item.image_token, prompt),
    audioCompletion: or(item.audio_completion ?? item.audio, completion),
    imageCompletion: or(item.image_token_completion, completion),
    request: or(item.request, 0n),
  }
  return { moreThan: item.min_prompt_tokens ?? -1, atto, pico: toPicoPrices(atto) }
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
