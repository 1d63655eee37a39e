/**
 * Exact money: what a call costs in integer nano-dollars, from decimal strings and BigInt, rounded once, half up, and the
 * same written out for whoever asks how it came about. No floating point touches it. Pure.
 */
import {
  COUNTED_KINDS,
  costsTimeAlone,
  isTimed,
  KINDS,
  type Kind,
  lacking,
  MAX_DECIMALS,
  type Prices,
  priceOf,
  type Tariff,
  toTariff,
} from './tariff.ts'
import type { PricingItem, Usage } from './usage.ts'

const ATTO_PER_NANO = 1_000_000_000n
const PICO_PER_NANO = 1_000

/**
 * Charges one call. A missing price of a kind of tokens costs as `prompt` or `completion`, that of audio in an answer as
 * `audio`, where there is one; of several items the last one whose condition holds counts. No pricing = free.
 *
 * @param mode how its upstream served it; null for as most are.
 */
export function costNanoUsd(pricing: readonly PricingItem[], usage: Usage, mode: string | null = null): number {
  if (pricing.length === 0) return 0
  const tariff = toTariff(pricing, usage.prompt, mode)
  return tariff ? chargeBy(tariff, usage) : 0
}

/** What such a call costs by these prices, in integer nano-dollars. */
export function chargeBy(tariff: Tariff, usage: Usage): number {
  const plain = toPlain(usage)
  const written = toWritten(usage)
  const pico = tariff.pico === null ? Number.POSITIVE_INFINITY : toPico(tariff.pico, plain, written, usage)
  // Whole numbers up to here are exact, and none of the parts is larger than their sum.
  if (pico < Number.MAX_SAFE_INTEGER - PICO_PER_NANO) return roundHalfUp(pico)
  const atto = toAttoSum(tariff.atto, toCounts(usage))
  return Number((atto + ATTO_PER_NANO / 2n) / ATTO_PER_NANO)
}

/** What a charge leaves out, or reckons by a price that is not its own. */
export type Unpriced = keyof PricingItem

const NONE: readonly Unpriced[] = []

/**
 * Names what of a call has no price, by the names that those prices have in the catalogue; `mode`: the sheet has none for calls that
 * are served so, or for any of such a size. Of nothing that is free as a whole, or costs its time alone.
 */
export function findUnpriced(
  pricing: readonly PricingItem[],
  usage: Usage,
  mode: string | null = null,
): readonly Unpriced[] {
  if (pricing.length === 0) return NONE
  const { webSearches, cacheWrite, cacheWrite1h, audioPrompt, audioCompletion, imageCompletion } = usage
  const doubtful = webSearches + cacheWrite + cacheWrite1h + audioPrompt + audioCompletion + imageCompletion
  if (mode === null && doubtful === 0) return NONE
  if (isTimed(pricing) && costsTimeAlone(pricing)) return NONE
  const item = toTariff(pricing, usage.prompt, mode)?.item
  if (!item) return NONE
  return [...(mode !== null && item.mode !== mode ? (['mode'] as const) : []), ...lacking(item, usage)]
}

/** Tokens of the prompt that have no kind of their own. Where more were cached than there are, some were both read and written. */
function toPlain({ prompt, cacheRead, cacheWrite, cacheWrite1h, audioPrompt, imagePrompt }: Usage): number {
  const written = cacheWrite + cacheWrite1h
  const cached = cacheRead + written > prompt ? Math.max(cacheRead, written) : cacheRead + written
  return Math.max(0, prompt - cached - audioPrompt - imagePrompt)
}

/** The same of the answer. */
const toWritten = ({ completion, reasoning, audioCompletion, imageCompletion }: Usage) =>
  Math.max(0, completion - reasoning - audioCompletion - imageCompletion)

const toCounts = (usage: Usage): Record<Kind, number> => ({
  ...usage,
  prompt: toPlain(usage),
  completion: toWritten(usage),
  request: 1,
})

/** One product of the sum that a call costs. */
export interface ChargeLine {
  /** What is counted: tokens of a kind that no other line counts, searches of the web, ms of compute, or the call itself (`request`). */
  kind: Kind
  count: number
  /** The name in the catalogue of the price that it is charged by: of a kind without a price of its own, another one's. */
  price: keyof PricingItem
  /** USD for each, as the catalogue has it: of compute, for a second. */
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
  /** What it leaves out: see `findUnpriced`. */
  unpriced: readonly Unpriced[]
}

/** Writes out how the cost of a call comes about. Lines without a count are left out. */
export function toCharge(pricing: readonly PricingItem[], usage: Usage, mode: string | null = null): Charge {
  const nanoUsd = costNanoUsd(pricing, usage, mode)
  const unpriced = findUnpriced(pricing, usage, mode)
  const tariff = toTariff(pricing, usage.prompt, mode)
  if (!tariff) return { item: null, lines: [], usd: '0', nanoUsd, unpriced }
  const { item, atto } = tariff
  const counts = toCounts(usage)
  const lines = KINDS.flatMap((kind): ChargeLine[] => {
    const price = priceOf(item, kind)
    const count = counts[kind]
    if (price === null || count === 0) return []
    return [{ kind, count, price, usdEach: String(item[price]), usd: fromAtto(atto[kind] * BigInt(count)) }]
  })
  return { item, lines, usd: fromAtto(toAttoSum(atto, counts)), nanoUsd, unpriced }
}

/** Writes units of 10^-18 as a decimal without zeros that say nothing. */
function fromAtto(atto: bigint): string {
  const digits = String(atto).padStart(MAX_DECIMALS + 1, '0')
  const fraction = digits.slice(-MAX_DECIMALS).replace(/0+$/, '')
  return fraction === '' ? digits.slice(0, -MAX_DECIMALS) : `${digits.slice(0, -MAX_DECIMALS)}.${fraction}`
}

function toPico(price: Prices<number>, plain: number, written: number, usage: Usage): number {
  let pico = price.request + price.prompt * plain + price.completion * written
  for (const kind of COUNTED_KINDS) pico += price[kind] * usage[kind]
  return pico
}

/** Whole nano-dollars. The remainder of whole numbers is exact; their quotient would not be. */
function roundHalfUp(pico: number): number {
  const more = pico + PICO_PER_NANO / 2
  return (more - (more % PICO_PER_NANO)) / PICO_PER_NANO
}

const toAttoSum = (price: Prices<bigint>, counts: Readonly<Record<Kind, number>>): bigint =>
  KINDS.reduce((sum, kind) => sum + price[kind] * BigInt(counts[kind]), 0n)
