/** Which prices apply to a call, by size and mode. */
import { keysOf } from './json.ts'
import { UNIT_NAMES, UNITS, type Unit, type UnitCounts } from './units.ts'
import { type PricingItem, toMode, type Usage, type Variant } from './usage.ts'

/** 10^-18 USD. */
export const MAX_DECIMALS = 18
const MS_PER_SECOND = 1_000n

/** The first price that the item has applies. */
const TOKENS_CHARGED_BY = {
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
} as const satisfies Record<Exclude<keyof Usage, 'toolPrompt' | keyof UnitCounts>, readonly (keyof PricingItem)[]>

export type Kind = keyof typeof TOKENS_CHARGED_BY | Unit | 'request'
/** Units and requests are free without a price. */
const CHARGED_BY = {
  ...TOKENS_CHARGED_BY,
  ...(Object.fromEntries(UNIT_NAMES.map((unit) => [unit, [UNITS[unit].price]])) as Record<Unit, (keyof PricingItem)[]>),
  request: ['request'],
} satisfies Record<Kind, readonly (keyof PricingItem)[]>
export const KINDS: readonly Kind[] = keysOf(CHARGED_BY)

/** Tokens charged exactly as counted; others partly as another kind. */
export const COUNTED_KINDS = keysOf(TOKENS_CHARGED_BY).filter((kind) => kind !== 'prompt' && kind !== 'completion')
/** For a kind in ms, per ms: a thousandth of the price. */
export type Prices<T> = Record<Kind, T>

const toEach = <T>(of: (kind: Kind) => T): Prices<T> =>
  Object.fromEntries(KINDS.map((kind) => [kind, of(kind)])) as Prices<T>

/** null if the item has none. */
export function priceOf(item: PricingItem, kind: Kind): keyof PricingItem | null {
  const names: readonly (keyof PricingItem)[] = CHARGED_BY[kind]
  return names.find((name) => item[name] !== undefined) ?? null
}

const ownPriceOf = (kind: Kind): keyof PricingItem => CHARGED_BY[kind][0] ?? 'request'

/**
 * Undercharged without their own price: output audio and images cost far more than text, cache writes more than plain input (at Anthropic 25%
 * more, for an hour twice as much).
 */
const NEEDED = {
  cacheWrite: ['input_cache_write'],
  cacheWrite1h: ['input_cache_write_1h'],
  audioPrompt: ['audio'],
  audioCompletion: ['audio_completion', 'audio'],
  imageCompletion: ['image_token_completion'],
} as const satisfies Partial<Record<keyof Usage, readonly (keyof PricingItem)[]>>

export function lacking(item: PricingItem, usage: Usage): (keyof PricingItem)[] {
  const tokens = keysOf(NEEDED).flatMap((count) =>
    usage[count] > 0 && NEEDED[count].every((name) => item[name] === undefined) ? NEEDED[count][0] : [],
  )
  const units = UNIT_NAMES.flatMap((unit) => (lacksPrice(item, usage, unit) ? UNITS[unit].price : []))
  return [...tokens, ...units]
}

function lacksPrice(item: PricingItem, usage: Usage, unit: Unit): boolean {
  const { price, instead } = UNITS[unit]
  if (instead === null || !usage[unit] || item[price] !== undefined) return false
  return !isChargedInstead(item, usage, unit)
}

export const pricesAny = (pricing: readonly PricingItem[]): boolean =>
  pricing.some((item) => KINDS.some((kind) => isPriced(item, kind)))

export const pricesTokens = (pricing: readonly PricingItem[]): boolean =>
  pricing.some((item) => keysOf(TOKENS_CHARGED_BY).some((kind) => isPriced(item, kind)))

/** Whether the provider charges the same usage by another price, such as tokens of audio in place of seconds. */
export function isChargedInstead(item: PricingItem, usage: Usage, unit: Unit): boolean {
  const { instead }: { instead: readonly Kind[] | null } = UNITS[unit]
  return instead?.some((kind) => (kind === 'request' || (usage[kind] ?? 0) > 0) && isPriced(item, kind)) ?? false
}

const isPriced = (item: PricingItem, kind: Kind): boolean => {
  const name = priceOf(item, kind)
  return name !== null && toAtto(String(item[name])) > 0n
}

/** Ms of audio as charged: minimum applied, rounded up to whole steps. */
export function toChargedCount(
  { audio_min_seconds, audio_step_seconds }: PricingItem,
  unit: Unit,
  count: number,
): number {
  if (unit !== 'audioMs' || count === 0) return count
  const least = Math.max(count, (audio_min_seconds ?? 0) * 1_000)
  const step = (audio_step_seconds ?? 0) * 1_000
  return step > 0 ? Math.ceil(least / step) * step : least
}

export interface Tariff {
  item: PricingItem
  moreThan: number
  atto: Prices<bigint>
  /** In 10^-12 USD if whole, as nearly always: faster, and as exact. */
  pico: Prices<number> | null
  /** Units with a price. */
  units: readonly Unit[]
}

/** `0.00000015` to 10^-18. Throws on anything else. */
export function toAtto(decimal: string): bigint {
  const match = /^(\d+)(?:\.(\d{1,18}))?$/.exec(decimal)
  if (!match) throw new RangeError(`not a price: ${decimal}`)
  return BigInt((match[1] ?? '0') + (match[2] ?? '').padEnd(MAX_DECIMALS, '0'))
}

const MS: ReadonlySet<string> = new Set(UNIT_NAMES.filter((unit) => 'isMs' in UNITS[unit]))
export const isMs = (kind: string): boolean => MS.has(kind)

const toPrices = (item: PricingItem): Prices<bigint> =>
  toEach((kind) => {
    const price = priceOf(item, kind)
    const atto = price === null ? 0n : toAtto(String(item[price]))
    return isMs(kind) ? atto / MS_PER_SECOND : atto
  })

const ATTO_PER_PICO = 1_000_000n

/** null if not whole. */
const toPicoPrices = (atto: Prices<bigint>): Prices<number> | null =>
  KINDS.every((kind) => atto[kind] % ATTO_PER_PICO === 0n) ? toEach((kind) => Number(atto[kind] / ATTO_PER_PICO)) : null

/** Tariffs by mode. */
interface Sheet {
  usual: Tariff[]
  modes: ReadonlyMap<string, Tariff[]>
  /** Whether some items are for one size or quality of images. */
  hasSize: boolean
  hasQuality: boolean
  /** Image prices, if the standard tariff has none. The highest applies to images that aren't listed. */
  images: Tariff[]
  /** Prompt sizes above which items apply. */
  sizes: readonly number[]
  /** Highest tariff, by number of exceeded sizes. */
  most: Tariff[]
}

/**
 * The last item of the mode (or without one) that applies. An unlisted mode, such as two at once, costs the highest, price by price, of the usual tariff and
 * all listed modes that are parts of it.
 */
export function toTariff(
  pricing: readonly PricingItem[],
  promptTokens: number,
  mode: string | null,
): Tariff | undefined {
  const { usual, modes, images } = sheetOf(pricing)
  const tariff = pick(usual, promptTokens)
  if (modes.size === 0 || (mode === null && images.length === 0)) return tariff
  const served = mode === null ? undefined : pickMode(modes.get(mode), promptTokens)
  if (served && served.moreThan >= (tariff?.moreThan ?? -1)) return served
  const words = new Set(mode?.split('+'))
  const parts = [...modes].flatMap(([name, tariffs]) =>
    name.split('+').every((word) => words.has(word)) ? (pickMode(tariffs, promptTokens) ?? []) : [],
  )
  const all = [...(tariff ? [tariff] : []), ...parts, ...(parts.some(({ atto }) => atto.images > 0n) ? [] : images)]
  return all.length === 0 ? tariff : toDearest(all)
}

/** The service mode, and the size and quality of images if prices depend on them. */
export function toPricedMode(
  pricing: readonly PricingItem[],
  mode: string | null,
  { size, quality }: Variant,
): string | null {
  const { hasSize, hasQuality } = sheetOf(pricing)
  return toMode(...(mode?.split('+') ?? []), hasSize && size, hasQuality && quality)
}

/** Whether images are priced at other sizes and qualities, but not at this one. */
export function lacksVariant(pricing: readonly PricingItem[], item: PricingItem): boolean {
  const { images } = sheetOf(pricing)
  return images.length > 0 && images.every((tariff) => tariff.item !== item)
}

/** Upper bound in any mode: `prompt` is the highest price of input, cache included, `completion` of output, and so on. */
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

export const isTimed = (pricing: readonly PricingItem[]): boolean => pricing.some(({ second }) => second !== undefined)

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

/** Mode of an upstream's own batches. */
export const BATCH_MODE = 'batch'

const ofBatches = new WeakMap<readonly PricingItem[], PricingItem[]>()

/** Empty without a batch price. */
export const toBatchPricing = (pricing: readonly PricingItem[]): PricingItem[] =>
  ofBatches.getOrInsertComputed(pricing, () => pricing.filter(({ mode }) => mode === BATCH_MODE))

export const hasMode = (pricing: readonly PricingItem[], mode: string): boolean => sheetOf(pricing).modes.has(mode)

/** Highest price of each kind. Keeps a price's own name if an item has it or no other name would give the price. */
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
  const least = Math.max(...tariffs.map((tariff) => tariff.item.audio_min_seconds ?? 0))
  if (least > 0) item.audio_min_seconds = least
  // A length in whole steps of this multiple is also one in whole steps of each.
  const step = tariffs.reduce((all, tariff) => toMultiple(all, tariff.item.audio_step_seconds || 1), 1)
  if (tariffs.some((tariff) => tariff.item.audio_step_seconds)) item.audio_step_seconds = step
  return toParsed(item)
}

/** Least common multiple. */
const toMultiple = (one: number, other: number): number => (one / divisorOf(one, other)) * other
const divisorOf = (one: number, other: number): number => (other === 0 ? one : divisorOf(other, one % other))

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
  return toCharging(item, moreThan, most)
}

const larger = (one: bigint, other: bigint) => (one > other ? one : other)

/** Service mode, size, and quality that the item is for; null: all. */
export const modeOf = ({ mode, size, quality }: PricingItem): string | null =>
  size === undefined && quality === undefined ? (mode ?? null) : toMode(...(mode?.split('+') ?? []), size, quality)

/** Cached with the snapshot. */
const parsed = new WeakMap<readonly PricingItem[], Sheet>()

function sheetOf(pricing: readonly PricingItem[]): Sheet {
  const known = parsed.get(pricing)
  if (known) return known
  const modes = new Map<string, Tariff[]>()
  const usual: Tariff[] = []
  for (const item of pricing) {
    const mode = modeOf(item)
    const list = mode === null ? usual : modes.getOrInsertComputed(mode, () => [])
    list.push(toParsed(item))
  }
  const sizes = [...new Set(pricing.flatMap(({ min_prompt_tokens: size }) => size ?? []))]
  const variants = [...modes.values()]
    .flat()
    .filter(({ item }) => item.size !== undefined || item.quality !== undefined)
  const sheet: Sheet = {
    ...{ usual, modes, sizes, most: [] },
    hasSize: variants.some(({ item }) => item.size !== undefined),
    hasQuality: variants.some(({ item }) => item.quality !== undefined),
    images: usual.some(({ item }) => item.generated_image !== undefined) ? [] : variants,
  }
  parsed.set(pricing, sheet)
  return sheet
}

function toParsed(item: PricingItem): Tariff {
  const atto = toPrices(item)
  return toCharging(item, item.min_prompt_tokens ?? -1, atto)
}

const toCharging = (item: PricingItem, moreThan: number, atto: Prices<bigint>): Tariff => ({
  ...{ item, moreThan, atto, pico: toPicoPrices(atto) },
  units: UNIT_NAMES.filter((unit) => atto[unit] > 0n),
})
