/** What a model costs, in the unit that people compare: dollars for a million tokens. Pure; no floating point touches a price. */
import type { PricingItem } from '../../domain/usage.ts'

type Prices = readonly Pick<Partial<PricingItem>, 'prompt' | 'completion' | 'second'>[]

/** A price in dollars a token, as the catalogue has it, in dollars for a million: `$1.25`. */
export function toPerMillion(usdPerToken: string): string {
  const [whole = '0', fraction = ''] = usdPerToken.split('.')
  const digits = whole + fraction.padEnd(6, '0')
  const point = whole.length + 6
  const cents = digits.slice(point).replace(/0+$/, '').padEnd(2, '0')
  return `$${digits.slice(0, point).replace(/^0+(?=\d)/, '')}.${cents}`
}

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
