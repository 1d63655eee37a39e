/** Between what is typed of a key and what the API takes. Fields are called as its columns are. Pure. */
import type { KeyDocument } from '../../documents/key.ts'
import { PERIODS } from '../../domain/settings.ts'
import { DAY_MS } from '../../domain/time.ts'
import { Refusal } from '../api/refusal.ts'
import { toNanoUsd, toTypedUsd } from '../figures/money.ts'

export const NEW_KEY = {
  name: '',
  /** Patterns, one a line. */
  models: '',
  scope: 'all',
  /** A team's id; '' for none. */
  team: '',
  rpm: '',
  tpm: '',
  concurrency: '',
  /** In dollars. */
  budget: '',
  budget_period: 'month',
  /** One of `EXPIRIES`; `kept` as it is, `on` with a day. */
  expires_ms: '',
  /** Such as `2027-01-31`. */
  expires_on: '',
  /** One a line. */
  allowed_ips: '',
}

export type KeyValues = typeof NEW_KEY

export const EXPIRIES = [
  ['', 'Never'],
  ['30', 'In 30 days'],
  ['90', 'In 90 days'],
  ['365', 'In a year'],
  ['on', 'On a day …'],
] as const

export const toValues = (key: KeyDocument): KeyValues => ({
  ...{ name: key.name, models: key.models.join('\n'), scope: key.scope, team: key.team_id ?? '' },
  ...{ rpm: toText(key.rpm), tpm: toText(key.tpm), concurrency: toText(key.concurrency) },
  budget: key.budget_nano_usd === null ? '' : toTypedUsd(key.budget_nano_usd),
  budget_period: key.budget_period ?? 'month',
  expires_ms: key.expires_ms === null ? '' : 'kept',
  expires_on: '',
  allowed_ips: key.allowed_ips.join('\n'),
})

const toText = (limit: number | null) => (limit === null ? '' : String(limit))

/** Throws a Refusal that names the field for what cannot be read. */
export function toBody(values: KeyValues, nowMs: number) {
  const expiresMs = toExpiry(values, nowMs)
  return {
    name: values.name.trim(),
    models: toLines(values.models),
    scope: values.scope === 'local' ? ('local' as const) : ('all' as const),
    team: values.team === '' ? null : values.team,
    rpm: toLimit(values.rpm, 'rpm'),
    tpm: toLimit(values.tpm, 'tpm'),
    concurrency: toLimit(values.concurrency, 'concurrency'),
    ...toBudget(values),
    ...(expiresMs === undefined ? {} : { expires_ms: expiresMs }),
    allowed_ips: toLines(values.allowed_ips),
  }
}

const toLines = (text: string) => text.split(/[\s,]+/).filter((line) => line !== '')

function toLimit(text: string, field: string): number | null {
  const digits = text.trim().replaceAll(/[,_ ]/g, '')
  if (digits === '') return null
  if (/^\d{1,9}$/.test(digits)) return Number(digits)
  throw new Refusal('Write a whole number, such as 60, or nothing for no limit.', 'invalid', field)
}

function toBudget({ budget, budget_period: period }: KeyValues) {
  if (budget.trim() === '') return { budget_nano_usd: null }
  const nanoUsd = toNanoUsd(budget)
  if (nanoUsd === null) throw new Refusal('Write dollars, such as 20 or 0.50.', 'invalid', 'budget')
  return { budget_nano_usd: nanoUsd, budget_period: PERIODS.find((known) => known === period) ?? 'month' }
}

/** Undefined where it stays as it is. */
function toExpiry({ expires_ms: when, expires_on: day }: KeyValues, nowMs: number): number | null | undefined {
  if (when === 'kept') return undefined
  if (when === '') return null
  if (when !== 'on') return nowMs + Number(when) * DAY_MS
  // To the end of that day, where whoever types it is.
  const endMs = new Date(`${day}T23:59:59.999`).getTime()
  if (Number.isNaN(endMs)) throw new Refusal('Say on which day it ends.', 'invalid', 'expires_on')
  return endMs
}
