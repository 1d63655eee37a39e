/** Formats money, without floating point. */

/** Dollars to the cent, or two digits of a smaller sum; rounded down, so a budget never looks spent early. */
export const toSpent = (nanoUsd: number): string => toDollars(BigInt(nanoUsd), toDecimals(nanoUsd))

/** Like `toSpent`, but rounded to nearest, for comparing and adding. */
export function toRounded(nanoUsd: bigint): string {
  const decimals = toDecimals(nanoUsd)
  return toDollars(nanoUsd + 10n ** BigInt(9 - decimals) / 2n, decimals)
}

const toDecimals = (nanoUsd: number | bigint) =>
  Number(nanoUsd) === 0 ? 2 : Math.min(9, Math.max(2, 11 - String(nanoUsd).length))

/** Drops trailing zeros beyond cents. */
function toDollars(nanoUsd: bigint, decimals: number): string {
  const digits = String(nanoUsd).padStart(10, '0')
  const fraction = digits
    .slice(-9)
    .slice(0, decimals)
    .replace(/(?<=..)0+$/, '')
  return `$${digits.slice(0, -9)}.${fraction}`
}
