/** Findings of `doctor` and the admin API's status, and those about keys and budgets. */
import { type Static, Type } from '@sinclair/typebox'
import { count } from '../domain/text.ts'
import { DAY_MS, toDay } from '../domain/time.ts'
import { toBudgetText } from '../keys/definition.ts'
import { isActive } from '../keys/find.ts'
import type { BudgetStatus, toSpendStatuses } from '../keys/spend-status.ts'
import type { KeyRows, StoredKey } from '../store/config-store.ts'
import { Text, wordOf } from './fields.ts'

/** `message` says what was found and, if it is a problem, what to do. */
export const Check = Type.Object({ name: Text, status: wordOf(['ok', 'warning', 'problem'] as const), message: Text })
export type Check = Static<typeof Check>

export const ok = (name: string, message: string): Check => ({ name, status: 'ok', message })
export const warning = (name: string, message: string): Check => ({ name, status: 'warning', message })
export const problem = (name: string, message: string): Check => ({ name, status: 'problem', message })

/** `a, b, c, d, e and 3 more` */
export const toFew = (names: readonly string[]) =>
  `${names.slice(0, 5).join(', ')}${names.length > 5 ? ` and ${names.length - 5} more` : ''}`

/** Expiry is reported this long before and after. */
const END_MS = 7 * DAY_MS

/** @param read spend status of all keys or teams */
export function checkKeys(
  { keys, teams }: KeyRows,
  read: (kind: 'key' | 'team') => ReturnType<typeof toSpendStatuses>,
  nowMs: number,
): Check[] {
  const inForce = keys.filter((key) => isActive(key, nowMs))
  const living = inForce.filter(({ hidden }) => !hidden)
  if (living.length === 0) return [warning('keys', 'No active keys. Create one: tollgate keys create --name NAME')]
  const [ofKey, ofTeam] = [read('key'), read('team')]
  const budgets = [
    ...inForce.map((key) => ({ whose: `key ${key.name}`, status: ofKey(key).budget })),
    ...teams.map((team) => ({ whose: `team ${team.name}`, status: ofTeam(team).budget })),
  ]
  const found = [
    ...toEnds(keys, 'expired', (endMs) => endMs <= nowMs && endMs > nowMs - END_MS),
    ...toEnds(living, 'expires', (endMs) => endMs <= nowMs + END_MS),
    ...toSpent(budgets, 'spent', 'has spent its budget; its requests fail'),
    ...toSpent(budgets, 'warning', 'is near its budget'),
  ]
  return found.length > 0
    ? found
    : [ok('keys', `${count(living.length, 'active key')}; none expires soon or is near its budget.`)]
}

function toEnds(keys: readonly StoredKey[], what: string, isMeant: (endMs: number) => boolean): Check[] {
  const ends = keys.filter(({ revokedMs, expiresMs }) => revokedMs === null && expiresMs !== null && isMeant(expiresMs))
  if (ends.length === 0) return []
  const names = ends.map(({ name, expiresMs }) => `${name} ${what} on ${toDay(expiresMs ?? 0)}`)
  return [warning('keys', `${toFew(names)}. To extend: tollgate keys edit NAME --expires 90d`)]
}

function toSpent(
  budgets: readonly { whose: string; status: BudgetStatus | null }[],
  state: BudgetStatus['state'],
  what: string,
): Check[] {
  const meant = budgets.flatMap(({ whose, status }) => (status?.state === state ? [{ whose, status }] : []))
  if (meant.length === 0) return []
  const names = meant.map(({ whose, status: { budget, percent, resetMs } }) => {
    const next = resetMs === null ? 'never resets' : `resets on ${toDay(resetMs)}`
    return `${whose} ${what} (${state === 'spent' ? 'all' : `${percent}%`} of ${toBudgetText(budget)}, ${next})`
  })
  return [warning('budgets', `${toFew(names)}. To raise it: tollgate keys edit NAME --budget 50/month, or teams edit.`)]
}
