/**
 * How the commands tell how budgets stand: read from the ledger, as JSON fields, as a cell of a table and as a warning
 * beneath it.
 */
import type { Database } from 'bun:sqlite'
import type { Budget } from '../domain/settings.ts'
import { toUsd } from '../domain/usage.ts'
import { type BudgetStanding, toStanding } from '../keys/budget.ts'
import { createLedgerReader } from '../store/sqlite/ledger-reader.ts'
import { type Context, toDay } from './io.ts'
import { catchUp, toBehindNote } from './live.ts'

/** Prepares to work out how the budgets of keys or of teams stand now. Says on standard error what is not counted yet. */
export async function createStandings(sqlite: Database, kind: 'key' | 'team', io: Context) {
  io.stderr(toBehindNote(await catchUp(sqlite, io.dataFolder)))
  const { spent, latestHour } = createLedgerReader(sqlite)
  return ({ id, budget }: { id: string; budget: Budget | null }) =>
    toStanding(budget, { spentIn: (span) => spent({ kind, id }, span), latestHour }, io.nowMs())
}

/** The fields of a key or a team; all of them null without a budget. */
export const toBudgetFields = (standing: BudgetStanding | null) => ({
  budget_nano_usd: standing?.budget.nanoUsd ?? null,
  budget_period: standing?.budget.period ?? null,
  spent_nano_usd: standing?.spentNanoUsd ?? null,
  budget_reset_ms: standing?.resetMs ?? null,
  budget_state: standing?.state ?? null,
})

/** Such as `$16.20 of $20/month (81 %)`; `-` without a budget. */
export function toBudgetCell(standing: BudgetStanding | null): string {
  if (!standing) return '-'
  const { budget, spentNanoUsd, percent } = standing
  return `${toSpent(spentNanoUsd)} of ${toBudgetText(budget)} (${percent} %)`
}

/**
 * A line for whoever looks after keys, from the warning threshold on; '' before that.
 *
 * @param whose such as `key dev`.
 */
export function toBudgetWarning(whose: string, standing: BudgetStanding | null): string {
  if (!standing || standing.state === 'ok') return ''
  const { budget, percent, resetMs, state } = standing
  const part = state === 'spent' ? 'all' : `${percent} %`
  const next = resetMs === null ? 'It never resets' : `It resets on ${toDay(resetMs)}`
  return `warning: ${whose} has spent ${part} of its budget of ${toBudgetText(budget)}. ${next}.\n`
}

/** Such as `$20/month`, or `$5 in total`. */
export const toBudgetText = ({ nanoUsd, period }: Budget) =>
  `${toMoney(nanoUsd)}${period === 'total' ? ' in total' : `/${period}`}`

/** Exact dollars, to the cent at least where they are not whole: `$20`, `$0.10`. */
function toMoney(nanoUsd: number): string {
  const [whole = '', fraction] = toUsd(nanoUsd).split('.')
  return `$${whole}${fraction === undefined ? '' : `.${fraction.padEnd(2, '0')}`}`
}

/** Dollars to the cent, or two digits of a smaller sum; rounded down, so that no budget looks spent too early. */
function toSpent(nanoUsd: number): string {
  const decimals = nanoUsd === 0 ? 2 : Math.min(9, Math.max(2, 11 - String(nanoUsd).length))
  const digits = String(nanoUsd).padStart(10, '0')
  const fraction = digits
    .slice(-9)
    .slice(0, decimals)
    .replace(/(?<=..)0+$/, '')
  return `$${digits.slice(0, -9)}.${fraction}`
}
