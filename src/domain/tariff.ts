/** Which prices of a sheet hold for a call, by its size and by how it was served. Pure. */
import { KINDS, ownPriceOf, priceOf, type Tariff, toAtto, toPicoPrices, toPrices } from './price-sheet.ts'
import type { PricingItem } from './usage.ts'

/** Items by how a call is served, each list in order. */
interface Sheet {
  usual: Tariff[]
  modes: ReadonlyMap<string, Tariff[]>
}

/**
 * What a call is charged by: of the items of its mode, or without one, the last whose condition holds. A mode that the sheet does not
 * have for such a call, such as two at once, costs the dearest of what it has for any part of it, and what is usual: price by price.
 */
export function toTariff(
  pricing: readonly PricingItem[],
  promptTokens: number,
  mode: string | null,
): Tariff | undefined {
  const { usual, modes } = sheetOf(pricing)
  const tariff = pick(usual, promptTokens)
  if (mode === null || modes.size === 0) return tariff
  const served = pickMode(modes.get(mode), promptTokens)
  if (served && served.moreThan >= (tariff?.moreThan ?? -1)) return served
  const words = new Set(mode.split('+'))
  const parts = [...modes].flatMap(([name, tariffs]) =>
    name.split('+').every((word) => words.has(word)) ? (pickMode(tariffs, promptTokens) ?? []) : [],
  )
  return parts.length === 0 ? tariff : toDearest(tariff ? [tariff, ...parts] : parts)
}

function pick(tariffs: Tariff[], promptTokens: number): Tariff | undefined {
  const [first] = tariffs
  return tariffs.length === 1 ? first : (tariffs.findLast((tariff) => promptTokens > tariff.moreThan) ?? first)
}

const pickMode = (tariffs: Tariff[] | undefined, promptTokens: number): Tariff | undefined =>
  tariffs?.findLast(({ moreThan }) => promptTokens > moreThan)

/** How calls may be served that the sheet has prices of their own for. */
export const modesOf = (pricing: readonly PricingItem[]): Iterable<string> => sheetOf(pricing).modes.keys()

/** Whether the sheet has prices of their own for calls that are served so. */
export const hasMode = (pricing: readonly PricingItem[], mode: string): boolean => sheetOf(pricing).modes.has(mode)

/** Of each kind the highest price among these, under its own name where one of them has it, or where no other name would give it. */
function toDearest(tariffs: readonly Tariff[]): Tariff {
  const [first] = tariffs
  if (first && tariffs.length === 1) return first
  const item: PricingItem = { prompt: '0', completion: '0' }
  for (const kind of KINDS) {
    const dearest = tariffs.reduce((one, other) => (other.atto[kind] > one.atto[kind] ? other : one))
    const name = priceOf(dearest.item, kind)
    const value = name === null ? undefined : dearest.item[name]
    if (value === undefined) continue
    const own = ownPriceOf(kind)
    const instead = priceOf(item, kind)
    const isTold = instead !== null && toAtto(String(item[instead])) === dearest.atto[kind]
    if (!isTold || tariffs.some((tariff) => tariff.item[own] !== undefined)) Object.assign(item, { [own]: value })
  }
  return toParsed(item)
}

/** Parsed pricing, kept as long as the snapshot that holds the strings. */
const parsed = new WeakMap<readonly PricingItem[], Sheet>()

function sheetOf(pricing: readonly PricingItem[]): Sheet {
  const known = parsed.get(pricing)
  if (known) return known
  const modes = new Map<string, Tariff[]>()
  const usual: Tariff[] = []
  for (const item of pricing) {
    const list = item.mode === undefined ? usual : modes.getOrInsertComputed(item.mode, () => [])
    list.push(toParsed(item))
  }
  const sheet = { usual, modes }
  parsed.set(pricing, sheet)
  return sheet
}

function toParsed(item: PricingItem): Tariff {
  const atto = toPrices(item)
  return { item, moreThan: item.min_prompt_tokens ?? -1, atto, pico: toPicoPrices(atto) }
}
