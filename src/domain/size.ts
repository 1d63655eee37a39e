/** Sizes of memory as people write them. Pure. */

const UNITS = { K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40 } as const
type Unit = keyof typeof UNITS
const isUnit = (text: string): text is Unit => Object.hasOwn(UNITS, text)

/** Reads a size such as `22G`, `1.5G`, `512M` or `8GiB` into bytes, by powers of 1,024; null where it is none, or nothing. */
export function toSize(text: string): number | null {
  const [, amount, unit = ''] = /^(\d{1,6}(?:\.\d{1,3})?)\s?([KMGT])(?:i?B)?$/.exec(text) ?? []
  if (amount === undefined || !isUnit(unit)) return null
  return Math.round(Number(amount) * UNITS[unit]) || null
}
