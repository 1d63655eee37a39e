/** Formats counts, percentages, durations, money, and times for every page. */
import { UNITS } from '../../domain/units.ts'
import { isNothing, type PricingItem, toLeastPrices } from '../../domain/usage.ts'

const EXACT_COUNT = new Intl.NumberFormat('en-US')
const SHORT_COUNT = new Intl.NumberFormat('en-US', {
  ...{ notation: 'compact', maximumFractionDigits: 1, maximumSignificantDigits: 3, roundingPriority: 'lessPrecision' },
})

/** `1,284` up to 9,999, then `12.8k`, `3.4M`, `1.2B`. */
export const toCount = (count: number): string =>
  Math.abs(count) < 10_000 ? toExactCount(count) : SHORT_COUNT.format(count).replace('K', 'k')

/** `12,804`. */
export const toExactCount = (count: number): string => EXACT_COUNT.format(count)

/** A fraction as a percentage: `1.2%`, `38%`, `<0.1%`. */
export function toPercent(share: number): string {
  const percent = share * 100
  if (percent === 0) return '0%'
  if (percent < 0.1) return '<0.1%'
  return `${percent < 9.95 ? percent.toFixed(1).replace(/\.0$/, '') : percent.toFixed(0)}%`
}

/** `840 ms`, `1.24 s`, `12.4 s`, `2 min 5 s`, `2 min`. */
export function toLatency(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`
  if (ms < 9_995) return `${(ms / 1_000).toFixed(2)} s`
  if (ms < 59_950) return `${(ms / 1_000).toFixed(1)} s`
  const seconds = Math.round(ms / 1_000)
  const rest = seconds % 60 === 0 ? '' : ` ${seconds % 60} s`
  return `${Math.floor(seconds / 60)} min${rest}`
}

export interface Delta {
  direction: 'up' | 'down' | 'same'
  text: string
}

export const SAME: Delta = { direction: 'same', text: 'no change' }

/** A larger factor only means that usage had barely started in the previous period. */
const MAX_TIMES = 100

/**
 * Change since the previous period: `12% more`. Null if the comparison is meaningless.
 *
 * @param least smallest fraction that counts as a change
 */
export function toDelta(now: number, before: number, { least = 0.005, words = ['more', 'less'] } = {}): Delta | null {
  if (before === 0 || now > before * MAX_TIMES) return null
  const change = (now - before) / before
  if (Math.abs(change) < least) return SAME
  const text = change < 10 ? `${Math.round(Math.abs(change) * 100)}%` : `${Math.round(now / before)} times`
  return change > 0
    ? { direction: 'up', text: `${text} ${words[0]}` }
    : { direction: 'down', text: `${text} ${words[1]}` }
}

const inUsd = (options: Intl.NumberFormatOptions) => {
  const { format } = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', ...options })
  // A decimal string keeps it exact.
  return (nanoUsd: number) => format(`${nanoUsd}e-9` as `${number}`)
}
const toCents = inUsd({})
/** Below a cent. */
const toDigits = inUsd({ maximumSignificantDigits: 4 })

const CENT = 10_000_000

/** `$1,204.40`, `$0.0031` below a cent, `~$0.02` if partly estimated. */
export function toMoney(nanoUsd: number, isEstimated = false): string {
  const isLess = nanoUsd !== 0 && Math.abs(nanoUsd) < CENT
  return `${isEstimated ? '~' : ''}${isLess ? toDigits(nanoUsd) : toCents(nanoUsd)}`
}

/** `$0.005725` */
export const toExactMoney = inUsd({ maximumFractionDigits: 9 })

const NANO = 1_000_000_000n

/** Parses dollars, such as `20`, `$0.10`, or `1,200`. Null if invalid. */
export function toNanoUsd(text: string): number | null {
  const [, whole, fraction = ''] = /^\$?(\d{1,7}|\d{1,3}(?:,\d{3})+)(?:\.(\d{1,9}))?$/.exec(text.trim()) ?? []
  if (whole === undefined) return null
  const nano = BigInt(whole.replaceAll(',', '')) * NANO + BigInt(fraction.padEnd(9, '0'))
  return nano <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(nano) : null
}

export type Prices = readonly Partial<PricingItem>[]

const PER_MILLION = new Intl.NumberFormat('en-US', {
  ...{ style: 'currency', currency: 'USD', maximumFractionDigits: 12, useGrouping: false },
})

/** Dollars per token to dollars per million: `$1.25`. */
export const toPerMillion = (usdPerToken: string): string => PER_MILLION.format(`${usdPerToken}e6` as `${number}`)

/** Output modalities that are charged by unit, unless their tokens have a price. */
const BY_UNIT: ReadonlySet<string> = new Set(['image', 'rerank', 'speech', 'transcription'])
const UNIT_PRICES = Object.values(UNITS).map(({ price }) => price)

/**
 * `$1.25 in, $10.00 out per million`, with `$32.00 images out`, `from $0.02 per generated image`, all of these, `free`, or
 * `no price set`.
 * @param made the model's output modalities
 */
export function toPrices(pricing: Prices, made: readonly string[] = []): string {
  const { prompt, completion, image_token_completion: images, audio_completion: audio } = pricing[0] ?? {}
  const tokens = [
    `${toPerMillion(prompt ?? '0')} in, ${toPerMillion(completion ?? '0')} out`,
    ...(isNothing(images) || images === completion ? [] : [`${toPerMillion(images ?? '0')} images out`]),
    ...(isNothing(audio) || audio === completion ? [] : [`${toPerMillion(audio ?? '0')} audio out`]),
  ]
  const parts = [
    ...([prompt, completion, images, audio].every(isNothing) ? [] : [`${tokens.join(', ')} per million`]),
    ...toUnitPrices(pricing).map(([word, usd]) => `${usd} per ${word}`),
  ]
  return parts.join(', ') || (lacksPrice(pricing, made) ? 'no price set' : 'free')
}

/**
 * True if all prices are zero, and none is for the unit that the model is charged by: its requests are unpriced, not
 * free.
 */
export function lacksPrice(pricing: Prices, made: readonly string[]): boolean {
  const isByUnit = made.length > 0 && made.every((output) => BY_UNIT.has(output))
  const isStated = pricing.some((item) => UNIT_PRICES.some((name) => item[name] !== undefined))
  return isByUnit && pricing.length > 0 && !isStated && isFree(pricing)
}

/** Prices per unit other than tokens; the lowest, if there are several. Characters per million. */
export const toUnitPrices = (pricing: Prices): [word: string, usd: string][] =>
  toLeastPrices(pricing).map(({ unit, usd, per, isOneOfSeveral }) => {
    const isMany = unit === 'characters'
    return [
      isMany ? 'million characters' : per,
      `${isOneOfSeveral ? 'from ' : ''}${isMany ? toPerMillion(usd) : `$${usd}`}`,
    ]
  })

/** True if input, output, and all other units are free. */
export function isFree(pricing: Prices): boolean {
  const { prompt, completion, image_token_completion: images, audio_completion: audio } = pricing[0] ?? {}
  return [prompt, completion, images, audio].every(isNothing) && toUnitPrices(pricing).length === 0
}

/** Parses a price per million, such as `1.25` or `$1,000`, into dollars per token. Null if invalid. */
export function toPerToken(perMillion: string): string | null {
  const [, whole, fraction = ''] = /^\$?((?:\d|,(?=\d)){1,12})(?:\.(\d{1,12}))?$/.exec(perMillion.trim()) ?? []
  if (whole === undefined) return null
  const digits = whole.replaceAll(',', '').padStart(7, '0')
  const decimals = `${digits.slice(-6)}${fraction}`.replace(/0+$/, '')
  return `${digits.slice(0, -6).replace(/^0+(?=\d)/, '')}${decimals === '' ? '' : `.${decimals}`}`
}

/** In the form a user would type: `1.25`, `0`. */
export const toTypedPrice = (usdPerToken: string): string =>
  toPerMillion(usdPerToken)
    .slice(1)
    .replace(/(\.\d*?)0+$/, '$1')
    .replace(/\.$/, '')

/** `$0.00000125 per token`; '' if invalid. */
export function toExactPrice(perMillion: string): string {
  const price = toPerToken(perMillion)
  return price === null ? '' : `$${price} per token`
}

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** `just now`, `4 min ago`, `in 3 h` within a day, then as `toMoment`. */
export function toWhen(ms: number, nowMs: number, timeZone?: string): string {
  const distance = Math.abs(nowMs - ms)
  if (distance < MINUTE) return ms > nowMs ? 'in a moment' : 'just now'
  if (distance < DAY) {
    const text = distance < HOUR ? `${Math.floor(distance / MINUTE)} min` : `${Math.floor(distance / HOUR)} h`
    return ms > nowMs ? `in ${text}` : `${text} ago`
  }
  return toMoment(ms, nowMs, timeZone)
}

/** `Nov 21, 14:03`; in another year `Nov 21, 2025, 14:03`. */
export function toMoment(ms: number, nowMs: number, timeZone?: string): string {
  const zone = timeZone === undefined ? {} : { timeZone }
  const part = new Intl.DateTimeFormat('en-US', { ...zone, month: 'short', day: 'numeric' })
  const year = new Intl.DateTimeFormat('en-US', { ...zone, year: 'numeric' })
  const clock = new Intl.DateTimeFormat('en-GB', { ...zone, hour: '2-digit', minute: '2-digit' })
  const isThisYear = year.format(ms) === year.format(nowMs)
  return `${part.format(ms)}${isThisYear ? '' : `, ${year.format(ms)}`}, ${clock.format(ms)}`
}

/** `Nov 21`, or `Nov 21, 2025`. */
export const toDay = (ms: number, nowMs: number, timeZone?: string): string =>
  toMoment(ms, nowMs, timeZone).replace(/, \d\d:\d\d$/, '')

/** With its offset: `2026-11-22T21:04:05+01:00`. */
export function toIso(ms: number, offsetMinutes: number = -new Date(ms).getTimezoneOffset()): string {
  const local = new Date(ms + offsetMinutes * MINUTE).toISOString().slice(0, 19)
  if (offsetMinutes === 0) return `${local}Z`
  const [hours, minutes] = [Math.trunc(Math.abs(offsetMinutes) / 60), Math.abs(offsetMinutes) % 60]
  return `${local}${offsetMinutes < 0 ? '-' : '+'}${[hours, minutes].map((part) => String(part).padStart(2, '0')).join(':')}`
}

/** Case-insensitive search for all words. */
export function hasWords(texts: readonly string[], search: string): boolean {
  const text = texts.join('\n').toLowerCase()
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word))
}

export interface FieldChange {
  field: string
  /** Null if it did not exist. */
  before: string | null
  /** Null if removed. */
  after: string | null
}
