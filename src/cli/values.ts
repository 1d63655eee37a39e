/**
 * Reads the values of command line options: money, times, counts, names. Every refusal is a sentence that shows a right one,
 * and exit code 2. Pure; no floating point touches money.
 */

import { type Budget, MAX_LIMIT, PERIODS } from '../domain/limits.ts'
import { toDateMs, toLongMs, toPastMs } from '../domain/time.ts'
import { isName, NAME_RULE } from '../keys/rules.ts'
import { usageError } from './command-error.ts'

/** Such as `day, week, month or total`. */
const PERIODS_TEXT = PERIODS.join(', ').replace(/, (?=\w+$)/, ' or ')

/** Reads `20/month`, `0.10/day` or `5` (in total) as USD, into integer nano-dollars and a period. */
export function toBudget(text: string): Budget {
  const [amount = '', periodName = 'total', ...rest] = text.trim().split('/')
  const period = PERIODS.find((known) => known === periodName)
  if (rest.length > 0 || period === undefined)
    throw usageError(`--budget '${text}' has no known period: write USD per ${PERIODS_TEXT}, such as 20/month.`)
  const [, whole, fraction = ''] = /^\$?(\d+)(?:\.(\d+))?$/.exec(amount.trim()) ?? []
  if (whole === undefined)
    throw usageError(`--budget '${text}' is no amount: write USD as a decimal, such as 20/month, 0.10/day or 5.`)
  if (fraction.length > 9) throw usageError(`--budget '${text}' is too fine: at most 9 decimals, a nano-dollar.`)
  const nanoUsd = BigInt(whole + fraction.padEnd(9, '0'))
  if (nanoUsd === 0n) throw usageError('--budget must be more than 0; to stop a key, revoke it.')
  if (nanoUsd > BigInt(Number.MAX_SAFE_INTEGER)) throw usageError(`--budget '${text}' is too large: at most 9000000.`)
  return { nanoUsd: Number(nanoUsd), period }
}

/** Reads `90d`, `12h`, `30m`, `2w` from now, or a date (`2027-01-31`, UTC, or with a time), into ms since 1970. */
export function toExpiry(text: string, nowMs: number): number {
  const trimmed = text.trim()
  const spanMs = toLongMs(trimmed)
  const atMs = spanMs === null ? toDateMs(trimmed) : nowMs + spanMs
  if (atMs === null) throw usageError(`--expires '${text}' is no time: write 90d, 12h, or a date such as 2027-01-31.`)
  if (atMs <= nowMs) throw usageError(`--expires '${text}' is not in the future.`)
  return atMs
}

/** Reads the value of an option such as `--since` as `toPastMs` does. */
export function toMoment(option: string, text: string, nowMs: number): number {
  const atMs = toPastMs(text, nowMs)
  if (atMs !== null) return atMs
  throw usageError(`${option} '${text}' is no time: write 7d, 12h (ago), or a date such as 2027-01-31.`)
}

/** Reads a whole number from 1 to a thousand million for the option of that name. */
export function toCount(option: string, text: string): number {
  const digits = /^\d+$/.exec(text.trim())?.[0] ?? '0'
  const value = Number(digits)
  if (value < 1) throw usageError(`${option} '${text}' is no count: write a whole number of at least 1.`)
  if (value > MAX_LIMIT) throw usageError(`${option} '${text}' is too large: at most ${MAX_LIMIT}.`)
  return value
}

/**
 * Reads the name of a key or a team, which is text of any kind.
 *
 * @param hint what to write, for whoever left it out.
 */
export function toName(text: string | undefined, hint: string): string {
  if (text === undefined) throw usageError(`--name is missing: ${hint}.`)
  const name = text.trim()
  if (!isName(name)) throw usageError(`--name ${NAME_RULE}.`)
  return name
}
