/** Counts, shares, latencies and differences as pages show them. Pure. */
import type { PricingItem } from '../../domain/usage.ts'

const EXACT_COUNT = new Intl.NumberFormat('en-US')
const SHORT_COUNT = new Intl.NumberFormat('en-US', {
  ...{ notation: 'compact', maximumFractionDigits: 1, maximumSignificantDigits: 3, roundingPriority: 'lessPrecision' },
})

/** `1,284` up to 9,999, then `12.8k`, `3.4M`, `1.2B`. */
export const toCount = (count: number): string =>
  Math.abs(count) < 10_000 ? toExactCount(count) : SHORT_COUNT.format(count).replace('K', 'k')

/** `12,804`. */
export const toExactCount = (count: number): string => EXACT_COUNT.format(count)

/** A share of 1 in percent: `1.2 %`, `38 %`, `< 0.1 %`. */
export function toPercent(share: number): string {
  const percent = share * 100
  if (percent === 0) return '0 %'
  if (percent < 0.1) return '< 0.1 %'
  return `${percent < 9.95 ? percent.toFixed(1).replace(/\.0$/, '') : percent.toFixed(0)} %`
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

export const SAME: Delta = { direction: 'same', text: 'as before' }

/** Beyond that, what was before was no more than a beginning. */
const MAX_TIMES = 100

/**
 * How a figure compares with the one of the period before: `12 % more`. Null where that says nothing.
 *
 * @param least of a change, as a share of 1: less is none.
 */
export function toDelta(now: number, before: number, { least = 0.005, words = ['more', 'less'] } = {}): Delta | null {
  if (before === 0 || now > before * MAX_TIMES) return null
  const change = (now - before) / before
  if (Math.abs(change) < least) return SAME
  const text = change < 10 ? `${Math.round(Math.abs(change) * 100)} %` : `${Math.round(now / before)} times`
  return change > 0
    ? { direction: 'up', text: `${text} ${words[0]}` }
    : { direction: 'down', text: `${text} ${words[1]}` }
}

const inUsd = (options: Intl.NumberFormatOptions) => {
  const { format } = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', ...options })
  // As a decimal, which is exact.
  return (nanoUsd: number) => format(`${nanoUsd}e-9` as `${number}`)
}
const toCents = inUsd({})
/** Below a cent. */
const toDigits = inUsd({ maximumSignificantDigits: 4 })

const CENT = 10_000_000

/** Such as `$1,204.40`, `$0.0031` below a cent, and `~$0.02` where a part is estimated. */
export function toMoney(nanoUsd: number, isEstimated = false): string {
  const isLess = nanoUsd !== 0 && Math.abs(nanoUsd) < CENT
  return `${isEstimated ? '~' : ''}${isLess ? toDigits(nanoUsd) : toCents(nanoUsd)}`
}

/** All of it: `$0.005725`. */
export const toExactMoney = inUsd({ maximumFractionDigits: 9 })

const NANO = 1_000_000_000n

/** Reads what somebody typed as dollars, such as `20`, `$0.10` or `1,200`. Returns null for what is no amount. */
export function toNanoUsd(text: string): number | null {
  const [, whole, fraction = ''] = /^\$?(\d{1,7}|\d{1,3}(?:,\d{3})+)(?:\.(\d{1,9}))?$/.exec(text.trim()) ?? []
  if (whole === undefined) return null
  const nano = BigInt(whole.replaceAll(',', '')) * NANO + BigInt(fraction.padEnd(9, '0'))
  return nano <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(nano) : null
}

type Prices = readonly Pick<Partial<PricingItem>, 'prompt' | 'completion' | 'second'>[]

const PER_MILLION = new Intl.NumberFormat('en-US', {
  ...{ style: 'currency', currency: 'USD', maximumFractionDigits: 12, useGrouping: false },
})

/** A price in dollars a token, as the catalog has it, in dollars for a million: `$1.25`. */
export const toPerMillion = (usdPerToken: string): string => PER_MILLION.format(`${usdPerToken}e6` as `${number}`)

/** Such as `$1.25 in, $10.00 out per million`, `$0.0005 a second`, both; `free`. */
export function toPrices(pricing: Prices): string {
  const { prompt, completion, second } = pricing[0] ?? {}
  const parts = [
    ...(isNothing(prompt) && isNothing(completion)
      ? []
      : [`${toPerMillion(prompt ?? '0')} in, ${toPerMillion(completion ?? '0')} out per million`]),
    ...(isNothing(second) ? [] : [`$${second} a second`]),
  ]
  return parts.join(', ') || 'free'
}

/** Whether what is asked and what is answered cost nothing, nor the time that it takes. */
export function isFree([first]: Prices): boolean {
  return [first?.prompt, first?.completion, first?.second].every(isNothing)
}

const isNothing = (price = '0') => /^[0.]*$/.test(price)

/** A price for a million as somebody typed it, such as `1.25` or `$1,000`, in dollars a token. Returns null for what is none. */
export function toPerToken(perMillion: string): string | null {
  const [, whole, fraction = ''] = /^\$?((?:\d|,(?=\d)){1,12})(?:\.(\d{1,12}))?$/.exec(perMillion.trim()) ?? []
  if (whole === undefined) return null
  const digits = whole.replaceAll(',', '').padStart(7, '0')
  const decimals = `${digits.slice(-6)}${fraction}`.replace(/0+$/, '')
  return `${digits.slice(0, -6).replace(/^0+(?=\d)/, '')}${decimals === '' ? '' : `.${decimals}`}`
}

/** As it would be typed: `1.25`, `0`. */
export const toTypedPrice = (usdPerToken: string): string =>
  toPerMillion(usdPerToken)
    .slice(1)
    .replace(/(\.\d*?)0+$/, '$1')
    .replace(/\.$/, '')

/** What a price that is typed for a million comes to: `$0.00000125 a token`; '' where it is none. */
export function toExactPrice(perMillion: string): string {
  const price = toPerToken(perMillion)
  return price === null ? '' : `$${price} a token`
}

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** `now`, `4 min ago`, `in 3 h` within a day; then `Nov 21, 14:03`, with the year where that is another. */
export function toWhen(ms: number, nowMs: number, timeZone?: string): string {
  const distance = Math.abs(nowMs - ms)
  if (distance < MINUTE) return ms > nowMs ? 'in a moment' : 'now'
  if (distance < DAY) {
    const text = distance < HOUR ? `${Math.floor(distance / MINUTE)} min` : `${Math.floor(distance / HOUR)} h`
    return ms > nowMs ? `in ${text}` : `${text} ago`
  }
  return toMoment(ms, nowMs, timeZone)
}

/** `Nov 21, 14:03`; of another year `Nov 21, 2025, 14:03`. */
export function toMoment(ms: number, nowMs: number, timeZone?: string): string {
  const zone = timeZone === undefined ? {} : { timeZone }
  const part = new Intl.DateTimeFormat('en-US', { ...zone, month: 'short', day: 'numeric' })
  const year = new Intl.DateTimeFormat('en-US', { ...zone, year: 'numeric' })
  const clock = new Intl.DateTimeFormat('en-GB', { ...zone, hour: '2-digit', minute: '2-digit' })
  const isThisYear = year.format(ms) === year.format(nowMs)
  return `${part.format(ms)}${isThisYear ? '' : `, ${year.format(ms)}`}, ${clock.format(ms)}`
}

/** The day alone: `Nov 21`, or `Nov 21, 2025`. */
export const toDay = (ms: number, nowMs: number, timeZone?: string): string =>
  toMoment(ms, nowMs, timeZone).replace(/, \d\d:\d\d$/, '')

/** With its offset: `2026-11-22T21:04:05+01:00`. */
export function toIso(ms: number, offsetMinutes: number = -new Date(ms).getTimezoneOffset()): string {
  const local = new Date(ms + offsetMinutes * MINUTE).toISOString().slice(0, 19)
  if (offsetMinutes === 0) return `${local}Z`
  const [hours, minutes] = [Math.trunc(Math.abs(offsetMinutes) / 60), Math.abs(offsetMinutes) % 60]
  return `${local}${offsetMinutes < 0 ? '-' : '+'}${[hours, minutes].map((part) => String(part).padStart(2, '0')).join(':')}`
}

/** Whether texts have all of these words among them, in whatever case. */
export function hasWords(texts: readonly string[], search: string): boolean {
  const text = texts.join('\n').toLowerCase()
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word))
}

export interface FieldChange {
  field: string
  /** Null where it was not there. */
  before: string | null
  /** Null where it is gone. */
  after: string | null
}
