/** Exact cost in nano-dollars: decimal strings, BigInt, rounded once, half up; no floating point. */
import {
  COUNTED_KINDS,
  costsTimeAlone,
  isTimed,
  KINDS,
  type Kind,
  lacking,
  lacksVariant,
  MAX_DECIMALS,
  modeOf,
  type Prices,
  priceOf,
  type Tariff,
  toChargedCount,
  toTariff,
} from './tariff.ts'
import { hasUnits, NO_UNITS, UNIT_NAMES } from './units.ts'
import type { PricingItem, Usage } from './usage.ts'

export const ATTO_PER_NANO = 1_000_000_000n
const PICO_PER_NANO = 1_000

/**
 * Missing prices fall back to `prompt` or `completion`, and that of output audio to `audio`. The last item that applies counts. No pricing = free.
 *
 * @param mode null for the standard mode.
 */
export function costNanoUsd(pricing: readonly PricingItem[], usage: Usage, mode: string | null = null): number {
  if (pricing.length === 0) return 0
  const tariff = toTariff(pricing, usage.prompt, mode)
  return tariff ? chargeBy(tariff, usage) : 0
}

/** Nano-dollars. */
export function chargeBy(tariff: Tariff, usage: Usage): number {
  const plain = toPlain(usage)
  const written = toWritten(usage)
  const pico = tariff.pico === null ? Number.POSITIVE_INFINITY : toPico(tariff, tariff.pico, plain, written, usage)
  // Integers up to this are exact, and no part exceeds the sum.
  if (pico < Number.MAX_SAFE_INTEGER - PICO_PER_NANO) return roundHalfUp(pico)
  const atto = toAttoSum(tariff.atto, toCounts(tariff.item, usage))
  return Number((atto + ATTO_PER_NANO / 2n) / ATTO_PER_NANO)
}

/** Usage without a price of its own. */
export type Unpriced = keyof PricingItem

const NONE: readonly Unpriced[] = []

/**
 * By price name. `mode`: no prices for this mode (at this size); `size`: none for images of this size and quality. Empty if free or charged
 * by time only.
 */
export function findUnpriced(
  pricing: readonly PricingItem[],
  usage: Usage,
  mode: string | null = null,
): readonly Unpriced[] {
  if (pricing.length === 0) return NONE
  const { cacheWrite, cacheWrite1h, audioPrompt, audioCompletion, imageCompletion } = usage
  const doubtful = cacheWrite + cacheWrite1h + audioPrompt + audioCompletion + imageCompletion
  if (mode === null && doubtful === 0 && !hasUnits(usage)) return NONE
  if (isTimed(pricing) && costsTimeAlone(pricing)) return NONE
  const item = toTariff(pricing, usage.prompt, mode)?.item
  if (!item) return NONE
  const isOther = (usage.images ?? 0) > 0 && lacksVariant(pricing, item)
  const condition: Unpriced[] = isOther ? ['size'] : mode !== null && modeOf(item) !== mode ? ['mode'] : []
  return [...condition, ...lacking(item, usage)]
}

/** If cache reads and writes exceed the prompt, some tokens were both read and written. */
function toPlain({ prompt, cacheRead, cacheWrite, cacheWrite1h, audioPrompt, imagePrompt }: Usage): number {
  const written = cacheWrite + cacheWrite1h
  const cached = cacheRead + written > prompt ? Math.max(cacheRead, written) : cacheRead + written
  return Math.max(0, prompt - cached - audioPrompt - imagePrompt)
}

const toWritten = ({ completion, reasoning, audioCompletion, imageCompletion }: Usage) =>
  Math.max(0, completion - reasoning - audioCompletion - imageCompletion)

function toCounts(item: PricingItem, usage: Usage): Record<Kind, number> {
  const counts = { ...NO_UNITS, ...usage, prompt: toPlain(usage), completion: toWritten(usage), request: 1 }
  for (const unit of UNIT_NAMES) counts[unit] = toChargedCount(item, unit, counts[unit])
  return counts
}

/** count × price. */
export interface ChargeLine {
  /** Each token or unit is in one line only. */
  kind: Kind
  /** As charged: audio with its minimum and step applied. */
  count: number
  /** Price name, maybe of another kind. */
  price: keyof PricingItem
  /** As in the catalog: per second for compute and audio. */
  usdEach: string
  /** Exact. */
  usd: string
}

export interface Charge {
  /** null if nothing has a price. */
  item: PricingItem | null
  lines: ChargeLine[]
  /** Exact. */
  usd: string
  /** Rounded. */
  nanoUsd: number
  /** See `findUnpriced`. */
  unpriced: readonly Unpriced[]
}

/** Without zero counts. */
export function toCharge(pricing: readonly PricingItem[], usage: Usage, mode: string | null = null): Charge {
  const nanoUsd = costNanoUsd(pricing, usage, mode)
  const unpriced = findUnpriced(pricing, usage, mode)
  const tariff = toTariff(pricing, usage.prompt, mode)
  if (!tariff) return { item: null, lines: [], usd: '0', nanoUsd, unpriced }
  const { item, atto } = tariff
  const counts = toCounts(item, usage)
  const lines = KINDS.flatMap((kind): ChargeLine[] => {
    const price = priceOf(item, kind)
    const count = counts[kind]
    if (price === null || count === 0) return []
    return [{ kind, count, price, usdEach: String(item[price]), usd: fromAtto(atto[kind] * BigInt(count)) }]
  })
  return { item, lines, usd: fromAtto(toAttoSum(atto, counts)), nanoUsd, unpriced }
}

/** From units of 10^-18. */
function fromAtto(atto: bigint): string {
  const digits = String(atto).padStart(MAX_DECIMALS + 1, '0')
  const fraction = digits.slice(-MAX_DECIMALS).replace(/0+$/, '')
  return fraction === '' ? digits.slice(0, -MAX_DECIMALS) : `${digits.slice(0, -MAX_DECIMALS)}.${fraction}`
}

function toPico({ item, units }: Tariff, price: Prices<number>, plain: number, written: number, usage: Usage): number {
  let pico = price.request + price.prompt * plain + price.completion * written
  for (const kind of COUNTED_KINDS) pico += price[kind] * usage[kind]
  for (const unit of units) pico += price[unit] * toChargedCount(item, unit, usage[unit] ?? 0)
  return pico
}

/** The remainder of integers is exact; the quotient would not be. */
function roundHalfUp(pico: number): number {
  const more = pico + PICO_PER_NANO / 2
  return (more - (more % PICO_PER_NANO)) / PICO_PER_NANO
}

const toAttoSum = (price: Prices<bigint>, counts: Readonly<Record<Kind, number>>): bigint =>
  KINDS.reduce((sum, kind) => sum + price[kind] * BigInt(counts[kind]), 0n)
