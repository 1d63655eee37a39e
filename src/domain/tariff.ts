/**
 * Which prices of a sheet hold for a call, by its size and by how it was served; by which of them each count is charged; and the most that any
 * such call is charged by. `price.ts` adds up. Pure.
 */
import { keysOf } from './json.ts'
import type { PricingItem, Usage } from './usage.ts'

/** Prices are held as integers of 10^-18 USD: a decimal string may have this many places. */
export const MAX_DECIMALS = 18
const MS_PER_SECOND = 1_000n

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
} as const satisfies Record<Exclude<keyof Usage, 'toolPrompt'> | 'request', readonly (keyof PricingItem)[]>

export type Kind = keyof typeof CHARGED_BY
export const KINDS = keysOf(CHARGED_BY)
/** Those of which as many are charged as were counted: of the rest, a part is charged as another kind. */
export const COUNTED_KINDS = KINDS.filter((kind) => kind !== 'prompt' && kind !== 'completion' && kind !== 'request')
/** That of `computeMs` is of a ms: a thousandth of `second`. */
export type Prices<T> = Record<Kind, T>

const toEach = <T>(of: (kind: Kind) => T): Prices<T> =>
  Object.fromEntries(KINDS.map((kind) => [kind, of(kind)])) as Prices<T>

/** The name of the price that a kind is charged by; null where the item has none for it. */
export function priceOf(item: PricingItem, kind: Kind): keyof PricingItem | null {
  return CHARGED_BY[kind].find((name) => item[name] !== undefined) ?? null
}

/** The name of a kind's own price. */
const ownPriceOf = (kind: Kind): keyof PricingItem => CHARGED_BY[kind][0]

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
  return keysOf(NEEDED).flatMap((count) =>
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
const toPrices = (item: PricingItem): Prices<bigint> =>
  toEach((kind) => {
    const price = priceOf(item, kind)
    const atto = price === null ? 0n : toAtto(String(item[price]))
    return kind === 'computeMs' ? atto / MS_PER_SECOND : atto
  })

const ATTO_PER_PICO = 1_000_000n

/** The same in units of 10^-12; null where they are not whole. */
const toPicoPrices = (atto: Prices<bigint>): Prices<number> | null =>
  KINDS.every((kind) => atto[kind] % ATTO_PER_PICO === 0n) ? toEach((kind) => Number(atto[kind] / ATTO_PER_PICO)) : null

/** Items by how a call is served, each list in order. */
interface Sheet {
  usual: Tariff[]
  modes: ReadonlyMap<string, Tariff[]>
  /** The sizes of prompts beyond which some item holds. */
  sizes: readonly number[]
  /** What `toMaxTariff` has found, by how many of these sizes are passed. */
  most: Tariff[]
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

/**
 * The most that a call with such a prompt is charged by, however it is served: `prompt` is the price of the dearest thing that may be
 * done with text that is read, a cache included, `completion` that of the dearest text that is written, and so on. Found once a sheet.
 */
export function toMaxTariff(pricing: readonly PricingItem[], promptTokens: number): Tariff | undefined {
  const sheet = sheetOf(pricing)
  let level = 0
  for (const size of sheet.sizes) if (promptTokens > size) level++
  const known = sheet.most[level]
  if (known) return known
  const usual = pick(sheet.usual, promptTokens)
  const served = [...sheet.modes.values()].flatMap((tariffs) => pickMode(tariffs, promptTokens) ?? [])
  const all = usual ? [usual, ...served] : served
  if (all.length === 0) return undefined
  const most = toMost(toDearest(all))
  sheet.most[level] = most
  return most
}

/** Whether some calls are charged by the time that they take. */
export const isTimed = (pricing: readonly PricingItem[]): boolean => pricing.some(({ second }) => second !== undefined)

/** Whether a call costs nothing but its time, whatever is done in it. */
export function costsTimeAlone(pricing: readonly PricingItem[]): boolean {
  const { usual, modes } = sheetOf(pricing)
  const all = [usual, ...modes.values()].flat()
  return all.every(({ atto }) => KINDS.every((kind) => kind === 'computeMs' || atto[kind] === 0n))
}

function pick(tariffs: Tariff[], promptTokens: number): Tariff | undefined {
  const [first] = tariffs
  return tariffs.length === 1 ? first : (tariffs.findLast((tariff) => promptTokens > tariff.moreThan) ?? first)
}

const pickMode = (tariffs: Tariff[] | undefined, promptTokens: number): Tariff | undefined =>
  tariffs?.findLast(({ moreThan }) => promptTokens > moreThan)

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

function toMost({ item, moreThan, atto }: Tariff): Tariff {
  const max = (...kinds: Kind[]) => kinds.map((kind) => atto[kind]).reduce(larger)
  const read = ['prompt', 'cacheRead', 'cacheWrite', 'cacheWrite1h'] as const
  const written = ['completion', 'reasoning'] as const
  const most: Prices<bigint> = {
    ...atto,
    prompt: max(...read),
    audioPrompt: max(...read, 'audioPrompt'),
    imagePrompt: max(...read, 'imagePrompt'),
    completion: max(...written),
    audioCompletion: max(...written, 'audioCompletion'),
    imageCompletion: max(...written, 'imageCompletion'),
  }
  return { item, moreThan, atto: most, pico: toPicoPrices(most) }
}

const larger = (one: bigint, other: bigint) => (one > other ? one : other)

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
  const sizes = [...new Set(pricing.flatMap(({ min_prompt_tokens: size }) => size ?? []))]
  const sheet = { usual, modes, sizes, most: [] }
  parsed.set(pricing, sheet)
  return sheet
}

function toParsed(item: PricingItem): Tariff {
  const atto = toPrices(item)
  return { item, moreThan: item.min_prompt_tokens ?? -1, atto, pico: toPicoPrices(atto) }
}
