/** How keys and teams stand, read from the ledger for commands, and sums of money as they write them. */
import { readStandings } from '../keys/standing.ts'
import type { Store } from '../store/store.ts'
import { toBehindNote } from './admin-client.ts'
import { catchUp } from './control-client.ts'
import type { Context } from './io.ts'

/**
 * Reads how keys or teams stand now. Says on standard error what is not counted yet.
 *
 * @param id of the only one that will be asked for.
 */
export async function createStandings(
  { ledger, audit }: Pick<Store, 'ledger' | 'audit'>,
  kind: 'key' | 'team',
  io: Context,
  id?: string,
) {
  io.stderr(toBehindNote(await catchUp(audit, io.dataFolder)))
  return readStandings(ledger, kind, io.nowMs(), id)
}

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
