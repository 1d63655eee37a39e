/** What a model costs, in the unit that people compare: dollars for a million tokens. Pure. */

/** A price in dollars a token, as the catalogue has it, in dollars for a million. No floating point touches it. */
export function toPerMillion(usdPerToken: string): string {
  const [whole = '0', fraction = ''] = usdPerToken.split('.')
  const digits = whole + fraction.padEnd(6, '0')
  const point = whole.length + 6
  const cents = digits.slice(point).replace(/0+$/, '').padEnd(2, '0')
  return `$${digits.slice(0, point).replace(/^0+(?=\d)/, '')}.${cents}`
}

/** Such as `$1.25 in, $10.00 out per million`; `free`. */
export function toPrices([price]: readonly { prompt?: string; completion?: string }[]): string {
  const [prompt = '0', completion = '0'] = [price?.prompt, price?.completion]
  if ([prompt, completion].every((one) => /^0*\.?0*$/.test(one))) return 'free'
  return `${toPerMillion(prompt)} in, ${toPerMillion(completion)} out per million`
}
