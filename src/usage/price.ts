/**
 * Exact money: what a call costs in integer nano-dollars, from decimal strings and BigInt, rounded once, half up. No
 * floating point touches it. Pure.
 */
import type { PricingItem, Usage } from '../wire/usage.ts'

/** Prices are held as integers of 10^-18 USD: a decimal string may have this many places. */
export const MAX_DECIMALS = 18
const ATTO_PER_NANO = 1_000_000_000n

interface Tariff {
  moreThan: number
  prompt: bigint
  completion: bigint
  cacheRead: bigint
  cacheWrite: bigint
  cacheWrite1h: bigint
  reasoning: bigint
  request: bigint
}

/** Parses a plain decimal such as `0.00000015` to units of 10^-18. Throws on anything else. */
export function toAtto(decimal: string): bigint {
  const match = /^(\d+)(?:\.(\d{1,18}))?$/.exec(decimal)
  if (!match) throw new RangeError(`not a price: ${decimal}`)
  return BigInt((match[1] ?? '0') + (match[2] ?? '').padEnd(MAX_DECIMALS, '0'))
}

/**
 * Charges one call. A missing cache price costs as `prompt`, a missing reasoning price as `completion`; of several
 * items the last one whose condition holds counts (design 5). No pricing = free.
 */
export function costNanoUsd(pricing: readonly PricingItem[], usage: Usage): number {
  if (pricing.length === 0) return 0
  const tariff = pick(tariffsOf(pricing), usage.prompt)
  if (!tariff) return 0
  const plain = Math.max(0, usage.prompt - usage.cacheRead - usage.cacheWrite - usage.cacheWrite1h)
  const spoken = Math.max(0, usage.completion - usage.reasoning)
  let atto = tariff.request + tariff.prompt * BigInt(plain) + tariff.completion * BigInt(spoken)
  if (usage.cacheRead) atto += tariff.cacheRead * BigInt(usage.cacheRead)
  if (usage.cacheWrite) atto += tariff.cacheWrite * BigInt(usage.cacheWrite)
  if (usage.cacheWrite1h) atto += tariff.cacheWrite1h * BigInt(usage.cacheWrite1h)
  if (usage.reasoning) atto += tariff.reasoning * BigInt(usage.reasoning)
  return Number((atto + ATTO_PER_NANO / 2n) / ATTO_PER_NANO)
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
  return {
    moreThan: item.min_prompt_tokens ?? -1,
    prompt,
    completion,
    cacheRead: or(item.input_cache_read, prompt),
    cacheWrite,
    cacheWrite1h: or(item.input_cache_write_1h, cacheWrite),
    reasoning: or(item.internal_reasoning, completion),
    request: or(item.request, 0n),
  }
}

const pick = (tariffs: Tariff[], promptTokens: number) =>
  tariffs.findLast((tariff) => promptTokens > tariff.moreThan) ?? tariffs[0]
