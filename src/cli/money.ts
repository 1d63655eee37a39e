/** Sums of money as commands write them. Pure; no floating point touches them. */

/** Dollars to the cent, or two digits of a smaller sum; rounded down, so that no budget looks spent too early. */
export const toSpent = (nanoUsd: number): string => toDollars(BigInt(nanoUsd), toDecimals(nanoUsd))

/** The same, rounded to the nearest: what is compared, and added up by its readers. */
export function toRounded(nanoUsd: bigint): string {
  const decimals = toDecimals(nanoUsd)
  return toDollars(nanoUsd + 10n ** BigInt(9 - decimals) / 2n, decimals)
}

const toDecimals = (nanoUsd: number | bigint) =>
  Number(nanoUsd) === 0 ? 2 : Math.min(9, Math.max(2, 11 - String(nanoUsd).length))

/** As many decimals as are wanted, of which zeros beyond the cents are left out. */
function toDollars(nanoUsd: bigint, decimals: number): string {
  const digits = String(nanoUsd).padStart(10, '0')
  const fraction = digits
    .slice(-9)
    .slice(0, decimals)
    .replace(/(?<=..)0+$/, '')
  return `$${digits.slice(0, -9)}.${fraction}`
}
