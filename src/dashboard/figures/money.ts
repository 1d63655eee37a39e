/** Money as pages show it, from integer nano-dollars. Pure; no floating point touches an amount. */

const NANO = 1_000_000_000n
const CENT = 10_000_000n
/** Below a cent. */
const DIGITS = 4

/** Such as `$1,204.40`, `$0.0031` below a cent, and `~$0.02` where a part is estimated. */
export function toMoney(nanoUsd: number, isEstimated = false): string {
  const sign = `${isEstimated ? '~' : ''}${nanoUsd < 0 ? '-' : ''}$`
  const nano = BigInt(Math.abs(nanoUsd))
  if (nano === 0n || nano >= CENT) return sign + toDecimal((nano + CENT / 2n) / CENT, 2)
  // Rounded to so many digits from the first that is not 0.
  const drop = Math.max(0, nano.toString().length - DIGITS)
  const unit = 10n ** BigInt(drop)
  return sign + toDecimal((nano + unit / 2n) / unit, 9 - drop).replace(/0+$/, '')
}

/** All of it: `$0.005725`. */
export function toExactMoney(nanoUsd: number): string {
  const nano = BigInt(Math.abs(nanoUsd))
  const fraction = (nano % NANO).toString().padStart(9, '0').replace(/0+$/, '').padEnd(2, '0')
  return `${nanoUsd < 0 ? '-' : ''}$${toGrouped(nano / NANO)}.${fraction}`
}

/** Reads what somebody typed as dollars, such as `20`, `$0.10` or `1,200`. Returns null for what is no amount. */
export function toNanoUsd(text: string): number | null {
  const [, whole, fraction = ''] = /^\$?(\d{1,7}|\d{1,3}(?:,\d{3})+)(?:\.(\d{1,9}))?$/.exec(text.trim()) ?? []
  if (whole === undefined) return null
  const nano = BigInt(whole.replaceAll(',', '')) * NANO + BigInt(fraction.padEnd(9, '0'))
  return nano <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(nano) : null
}

/** As it would be typed: `20`, `0.5`. */
export function toTypedUsd(nanoUsd: number): string {
  const nano = BigInt(nanoUsd)
  const fraction = (nano % NANO).toString().padStart(9, '0').replace(/0+$/, '')
  return `${nano / NANO}${fraction === '' ? '' : `.${fraction}`}`
}

function toDecimal(amount: bigint, decimals: number): string {
  const digits = amount.toString().padStart(decimals + 1, '0')
  return `${toGrouped(BigInt(digits.slice(0, -decimals)))}.${digits.slice(-decimals)}`
}

const toGrouped = (whole: bigint) => whole.toString().replace(/\B(?=(\d{3})+$)/g, ',')
