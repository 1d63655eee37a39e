/** Texts of keys, the filter of their list, and their usage by day. */

import type { KeyDocument } from '../../documents/key.ts'
import { keysOf } from '../../domain/json.ts'
import { eachLimit, isLimit, LIMITS, type Limits } from '../../domain/limits.ts'
import { DAY_MS } from '../../domain/time.ts'
import { columnOf, KEY_FIELDS, type Kind, LISTED } from '../../keys/definition.ts'
import { type Standing, toStanding } from '../../keys/standing.ts'
import { hasWords, toCount, toExactMoney, toMoney } from '../figures/figures.ts'

export type Budgeted = Pick<
  KeyDocument,
  'budget_nano_usd' | 'budget_period' | 'budget_state' | 'spent_nano_usd' | 'budget_reset_ms'
>

/** Such as `60 requests per minute; 4 concurrent requests`; '' without limits. */
export const toLimitsText = (limits: Readonly<Limits>): string =>
  eachLimit(limits, (value, name) => `${toCount(value)} ${LIMITS[name].unit(value)}`).join('; ')

/** For a table: `60 rpm`, `60 rpm +2`. */
export const toShortLimits = (limits: Readonly<Limits>): string =>
  withMore(eachLimit(limits, (value, name) => `${toCount(value)} ${LIMITS[name].short}`))

/** For a table: `all models`, `openai/* +2`, `local models`. */
export const toShortModels = ({ models, scope }: Pick<KeyDocument, 'models' | 'scope'>): string =>
  models.length === 0 ? (scope === 'local' ? 'local models' : 'all models') : withMore(models)

const withMore = ([first = '', ...others]: readonly string[]) =>
  others.length === 0 ? first : `${first} +${others.length}`

/** Such as `$12.00 of $20.00 per month`, or `$19.998 of $20.00 per month`. */
export function toBudgetText({
  budget_nano_usd: budget,
  budget_period: period,
  spent_nano_usd: spent,
}: Pick<Budgeted, 'budget_nano_usd' | 'budget_period' | 'spent_nano_usd'>): string {
  if (budget === null) return ''
  const isLess = spent !== null && spent < budget
  // Rounding would make the budget look spent.
  const spentText = isLess && toMoney(spent) === toMoney(budget) ? toExactMoney(spent) : toMoney(spent ?? 0)
  return `${spentText} of ${toMoney(budget)} ${PERIOD_WORDS[period ?? 'total']}`
}

const PERIOD_WORDS = { day: 'per day', week: 'per week', month: 'per month', total: 'total' } as const

export const BUDGET_KINDS = { ok: 'good', warning: 'warn', spent: 'bad' } as const

export const STANDING_KINDS: Readonly<Record<Standing, 'good' | 'bad' | 'off'>> = {
  ...{ active: 'good', budget_spent: 'bad', team_budget_spent: 'bad', expired: 'off', revoked: 'off' },
}

interface KeyFilter {
  search: string
  /** Name or ID. */
  team: string
  /**
   * A spend status, `refused` for keys with refused requests, `all`, or '' for keys that are neither expired nor
   * revoked.
   */
  state: string
  /** IDs of teams whose budget is spent. */
  spentTeams: ReadonlySet<string>
}

/** Searches name, owner, team, models, ID, and the last four characters. */
export function filterKeys(
  keys: readonly KeyDocument[],
  { search, team, state, spentTeams }: KeyFilter,
): KeyDocument[] {
  return keys.filter((key) => {
    if (!isInState(key, state, spentTeams)) return false
    if (team !== '' && key.team !== team && key.team_id !== team) return false
    const { name, owner, id, models, secrets } = key
    const listed = LISTED.map((one) => key[one] ?? '')
    const texts = [name, owner ?? '', ...listed, id, ...models, ...secrets.map(({ last_four }) => last_four)]
    return hasWords(texts, search)
  })
}

function isInState(key: KeyDocument, state: string, spentTeams: ReadonlySet<string>): boolean {
  if (state === '') return key.status === 'active'
  if (state === 'refused') return key.last_refused_ms !== null
  return state === 'all' || toStanding(key, spentTeams) === state
}

const CEILINGS: Partial<Record<Kind, string>> = {
  ...{ count: 'at most ', budget: 'at most ', patterns: 'only ', ranges: 'only from ', time: 'expires by (UTC) ' },
}

/** Limits that an administrator set on a member's key, by column. */
export function toCeilingTexts(ceilings: KeyDocument['ceilings']): Record<string, string> {
  const { budget_nano_usd: nanoUsd, budget_period: period, ...others } = ceilings
  const values = new Map<string, unknown>(
    Object.entries({ ...others, ...(nanoUsd && { budget: { nanoUsd, period } }) }),
  )
  return Object.fromEntries(
    keysOf(KEY_FIELDS).flatMap((name) => {
      const value = values.get(columnOf(name))
      if (value === undefined) return []
      const { kind, toText } = KEY_FIELDS[name]
      // A ceiling has the type of its field.
      const text = `${CEILINGS[kind] ?? ''}${toText(value as never)}${isLimit(name) ? ` ${LIMITS[name].unit(Number(value))}` : ''}`
      return [[columnOf(name), `Set by an administrator: ${text}.`]]
    }),
  )
}

/** Days are in UTC, as for budgets. */
export const DAYS = 30

export interface Day {
  /** Start of the day. */
  ms: number
  requests: number
  costNanoUsd: number
}

type Row = Readonly<Record<string, string | number | null>>

/** The last days of each used key, oldest first, including days without requests. */
export function toDays(rows: readonly Row[], nowMs: number): Map<string, Day[]> {
  const firstMs = Math.floor(nowMs / DAY_MS) * DAY_MS - (DAYS - 1) * DAY_MS
  const found = new Map<string, Day[]>()
  for (const { key_id: id, day_ms: ms, requests, cost_nano_usd: costNanoUsd } of rows) {
    const days = found.getOrInsertComputed(String(id), () => emptyDays(firstMs))
    const day = days[(Number(ms) - firstMs) / DAY_MS]
    if (day) Object.assign(day, { requests: Number(requests), costNanoUsd: Number(costNanoUsd) })
  }
  return found
}

const emptyDays = (firstMs: number): Day[] =>
  Array.from({ length: DAYS }, (_, day) => ({ ms: firstMs + day * DAY_MS, requests: 0, costNanoUsd: 0 }))
