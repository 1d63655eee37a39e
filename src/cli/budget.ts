/**
 * How the commands tell how keys and teams stand: read from the ledger, as a cell of a table and as lines
 * beneath it.
 */

import type { Database } from 'bun:sqlite'
import { toDay } from '../domain/time.ts'
import { toBudgetText } from '../keys/budget.ts'
import { readStandings, type Standing } from '../keys/standing.ts'
import { createLedgerReader } from '../store/sqlite/ledger-reader.ts'
import { type Context, toPrintable, toTime } from './io.ts'
import { catchUp, toBehindNote } from './live.ts'

/**
 * Reads how keys or teams stand now. Says on standard error what is not counted yet.
 *
 * @param id of the only one that will be asked for.
 */
export async function createStandings(sqlite: Database, kind: 'key' | 'team', io: Context, id?: string) {
  io.stderr(toBehindNote(await catchUp(sqlite, io.dataFolder)))
  return readStandings(createLedgerReader(sqlite), kind, io.nowMs(), id)
}

/** Such as `$16.20 of $20/month (81 %)`; `-` without a budget. */
export function toBudgetCell({ budget: standing }: Standing): string {
  if (!standing) return '-'
  const { budget, spentNanoUsd, percent } = standing
  return `${toSpent(spentNanoUsd)} of ${toBudgetText(budget)} (${percent} %)`
}

/**
 * A line for whoever looks after keys, from the warning threshold on; '' before that.
 *
 * @param whose such as `key dev`.
 */
export function toBudgetWarning(whose: string, { budget: standing }: Standing): string {
  if (!standing || standing.state === 'ok') return ''
  const { budget, percent, resetMs, state } = standing
  const part = state === 'spent' ? 'all' : `${percent} %`
  const next = resetMs === null ? 'It never resets' : `It resets on ${toDay(resetMs)}`
  return `warning: ${whose} has spent ${part} of its budget of ${toBudgetText(budget)}. ${next}.\n`
}

/** Such as `$3.10 this month, $45.10 in total`. */
export const toSpentText = ({ monthNanoUsd, totalNanoUsd }: Standing) =>
  `${toSpent(monthNanoUsd)} this month, ${toSpent(totalNanoUsd)} in total`

/** Such as `2026-11-21 12:30 for openai/gpt-4o`. */
export const toLastUseText = ({ lastUse }: Standing) =>
  lastUse === null ? 'never' : `${toTime(lastUse.atMs)} for ${toPrintable(lastUse.model)}`

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
